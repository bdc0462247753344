#include "base/error.h"
#include "operations/check.h"
#include "operations/multiply.h"
#include "operations/operations.h"

namespace quire::cuda {

Status attention_output(CudaDevice& device, const AttentionOutputArgs& args) {
  const std::int64_t in = args.o != nullptr && args.o->weight ? args.o->weight->columns() : 0;
  if (Status s = check_linear("attention_output", args.o, args.width, in); !s.ok()) return s;
  if (Status s = check_rows(device, "attention_output", args.rows, in); !s.ok()) return s;
  return multiply_and_add(device, static_cast<const __nv_bfloat16*>(args.input), args.rows, *args.o,
                          args.post_norm, args.residual_scale, args.hidden);
}

}  // namespace quire::cuda
