#include "base/error.h"
#include "operations/check.h"
#include "operations/multiply.h"
#include "operations/operations.h"
#include "operations/row_kernels.h"

namespace quire::cuda {

Status head(CudaDevice& device, const HeadArgs& args) {
  const std::int64_t vocabulary =
      args.head != nullptr && args.head->weight ? args.head->weight->rows() : 0;
  if (Status s = check_linear("head", args.head, vocabulary, args.width); !s.ok()) return s;
  if (args.first < 0 || args.count < 1 || args.first > vocabulary - args.count ||
      args.rows > device.scratch()->limits().logit_rows) {
    return error(StatusCode::internal, "head: columns {} to {} of {}, {} rows", args.first,
                 args.first + args.count, vocabulary, args.rows);
  }
  ProductCall call =
      product_of(device, static_cast<const __nv_bfloat16*>(args.input), args.rows, *args.head);
  float* logits = args.logits + args.first;
  call.epilogue = Epilogue::store_float;
  call.out_float = logits;
  call.out_stride = vocabulary;
  call.first = args.first;
  call.count = args.count;
  if (Status s = product(device.launch(), call); !s.ok()) return s;
  if (args.scale == 1 && args.soft_cap <= 0) return {};
  return scale_logits(device.launch(), logits, args.rows, args.count, vocabulary, args.scale,
                      args.soft_cap);
}

}  // namespace quire::cuda
