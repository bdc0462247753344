#include "base/error.h"
#include "cpu/operations.h"
#include "cpu/phase.h"
#include "cpu/row_phase.h"

namespace quire::cpu {

Status embed(Device& base, const EmbedArgs& args) {
  auto& device = static_cast<CpuDevice&>(base);
  if (args.table == nullptr) return error(StatusCode::internal, "embed: a weight is missing");
  const int rows = static_cast<int>(args.tokens.size());
  const int width = static_cast<int>(args.table->columns());
  if (Status status = check_rows(device, "embed", rows, width); !status) return status;
  for (const std::int32_t token : args.tokens) {
    if (token < 0 || token >= args.table->rows()) {
      return error(StatusCode::internal, "embed: token {} of a table of {}", token,
                   args.table->rows());
    }
  }
  for_pieces(device.pool(), rows, piece_size(device.pool(), rows, 4, 16),
             [&](std::int64_t first, std::int64_t last, int) {
               for (std::int64_t row = first; row < last; ++row) {
                 float* to = args.hidden + row * width;
                 gather_row(*args.table, args.tokens[static_cast<std::size_t>(row)], to);
                 if (args.scale != 1) device.row().scale(to, args.scale, width, to);
               }
             });
  return {};
}

}  // namespace quire::cpu
