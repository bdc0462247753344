#include "base/error.h"
#include "cpu/operations.h"
#include "cpu/row_phase.h"

namespace quire::cpu {

Status attention_output(Device& base, const AttentionOutputArgs& args) {
  auto& device = static_cast<CpuDevice&>(base);
  if (args.o == nullptr || args.o->weight == nullptr || args.o->weight->rows() != args.width) {
    return error(StatusCode::internal, "attention_output: the weight does not give {} elements",
                 args.width);
  }
  const auto in = static_cast<int>(args.o->weight->columns());
  if (Status s = check_rows(device, "attention_output", args.rows, in); !s) return s;
  if (Status s = check_rows(device, "attention_output", args.rows, args.width); !s) return s;
  const Result<Activations> x =
      given_rows(device, "attention_output", static_cast<const float*>(args.input), args.rows, in);
  if (!x) return x.status();
  multiply_and_add(device, *x, *args.o, args.width, args.post_norm, args.residual_scale,
                   args.hidden);
  return {};
}

}  // namespace quire::cpu
