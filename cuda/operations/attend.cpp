#include "attention/paged_attention.h"
#include "base/error.h"
#include "operations/check.h"
#include "operations/kv_view_of.h"
#include "operations/operations.h"

namespace quire::cuda {

// ModelOps::paged_attention.
Status attend(CudaDevice& device, const PagedAttentionArgs& args) {
  CudaScratch& scratch = *device.scratch();
  const WorkLimits& limits = scratch.limits();
  if (args.group < 0 || args.group >= scratch.tables().groups() || args.heads < 1 ||
      args.heads > limits.heads || args.kv.kv_heads < 1 || args.heads % args.kv.kv_heads != 0 ||
      args.kv.head_size > limits.head_size) {
    return error(StatusCode::internal, "paged_attention: {} query heads for {} of {}, group {}",
                 args.heads, args.kv.kv_heads, args.kv.head_size, args.group);
  }
  PagedAttentionCall call;
  call.query = static_cast<const __nv_bfloat16*>(args.query);
  call.output = static_cast<__nv_bfloat16*>(args.output);
  call.kv = kv_view_of(args.kv);
  call.sequences = scratch.tables().group(args.group);
  call.heads = args.heads;
  call.window = args.window;
  call.scale = args.scale;
  call.soft_cap = args.soft_cap;
  call.sinks = args.sinks;
  call.workspace = scratch.attention();
  AttentionPlans& plans = scratch.plans();
  call.plan = plans.memory(args.group);
  call.plan_is_old = plans.holds(args.group, args.heads, args.kv.kv_heads, args.window);
  if (!call.plan_is_old) {
    if (Status s = plan_attention(device.launch(), call); !s.ok()) return s;
    plans.set(args.group, args.heads, args.kv.kv_heads, args.window);
  }
  return paged_attention(device.launch(), call);
}

}  // namespace quire::cuda
