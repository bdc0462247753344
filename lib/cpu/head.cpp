#include "base/error.h"
#include "cpu/operations.h"
#include "cpu/phase.h"
#include "cpu/row_phase.h"

namespace quire::cpu {

Status head(Device& base, const HeadArgs& args) {
  auto& device = static_cast<CpuDevice&>(base);
  if (Status s = check_rows(device, "head", args.rows, args.width); !s) return s;
  if (Status s = check_linear("head", args.head, args.width); !s) return s;
  const std::int64_t vocabulary = args.head->weight->rows();
  if (args.first < 0 || args.first % 64 != 0 || args.count < 0 ||
      args.first > vocabulary - args.count ||
      (args.count % kPanelRows != 0 && args.first + args.count != vocabulary)) {
    return error(StatusCode::internal, "head: columns {} to {} of {}", args.first,
                 args.first + args.count, vocabulary);
  }
  if (args.rows == 0) return {};
  const Activations x =
      prepare_rows(device, static_cast<const float*>(args.input), args.rows, args.width);
  const std::int64_t start = args.first / kPanelRows;
  const std::int64_t panels = (args.count + kPanelRows - 1) / kPanelRows;
  const auto compute = [&](ProductPart part, int) {
    part.first_panel += start;
    part.last_panel += start;
    multiply_part(device, RowBlock{x}, {args.head, args.logits, vocabulary}, part);
    if (args.scale == 1 && args.soft_cap <= 0) return;
    const std::int64_t column = part.first_panel * kPanelRows;
    const auto count =
        static_cast<int>(std::min(part.last_panel * kPanelRows, vocabulary) - column);
    for (std::int64_t row = part.first_token; row < part.last_token; ++row) {
      float* logits = args.logits + row * vocabulary + column;
      if (args.soft_cap > 0) {
        device.row().soft_cap(logits, args.scale, args.soft_cap, count);
      } else {
        device.row().scale(logits, args.scale, count, logits);
      }
    }
  };
  for_parts(device, product_grid(device, args.rows, panels), compute);
  return {};
}

}  // namespace quire::cpu
