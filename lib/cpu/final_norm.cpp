#include "base/error.h"
#include "cpu/operations.h"
#include "cpu/phase.h"
#include "cpu/row_phase.h"

namespace quire::cpu {

Status final_norm(Device& base, const FinalNormArgs& args) {
  auto& device = static_cast<CpuDevice&>(base);
  const auto rows = static_cast<std::int64_t>(args.rows.size());
  for_pieces(device.pool(), rows, piece_size(device.pool(), rows, 4, 16),
             [&](std::int64_t first, std::int64_t last, int) {
               for (std::int64_t i = first; i < last; ++i) {
                 const std::int64_t row = args.rows[static_cast<std::size_t>(i)];
                 norm_row(device.row(), args.norm, args.hidden + row * args.width, args.width,
                          static_cast<float*>(args.output) + i * args.width);
               }
             });
  return {};
}

}  // namespace quire::cpu
