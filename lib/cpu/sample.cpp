#include "base/error.h"
#include "cpu/cpu_device.h"
#include "cpu/operations.h"
#include "cpu/phase.h"

namespace quire::cpu {

Status sample(Device& base, const SampleArgs& args) {
  auto& device = static_cast<CpuDevice&>(base);
  if (device.scratch() == nullptr || args.results.size() != args.draws.size()) {
    return error(StatusCode::internal, "sample: {} draws, {} results", args.draws.size(),
                 args.results.size());
  }
  for_pieces(device.pool(), static_cast<std::int64_t>(args.draws.size()), 1,
             [&](std::int64_t first, std::int64_t last, int worker) {
               for (auto i = static_cast<std::size_t>(first); i < static_cast<std::size_t>(last);
                    ++i) {
                 const Status status = guarded("sample", [&] {
                   args.results[i] = draw_token(args.draws[i], device.scratch()->draw(worker));
                   return Status();
                 });
                 if (!status) args.results[i].status = status;
               }
             });
  return {};
}

Status await_draws(Device&, const AwaitDrawsArgs& args) {
  return error(StatusCode::internal, "await_draws: number {}, and nothing is awaited",
               args.awaited);
}

}  // namespace quire::cpu
