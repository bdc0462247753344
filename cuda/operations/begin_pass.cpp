#include <algorithm>
#include <optional>

#include "base/error.h"
#include "operations/operations.h"
#include "operations/row_kernels.h"
#include "sampling/draw_tokens.h"

namespace quire::cuda {
namespace {

// Larger passes take the device longer than the processor needs to queue them.
constexpr int kMostGraphRows = 64;

// Of a pass in which every sequence has one row and all logits are computed at once.
std::optional<PassShape> shape_of(const CudaScratch& scratch, const PassTables& tables) {
  const WorkLimits& limits = scratch.limits();
  if (limits.experts > 0 || tables.groups() == 0 || tables.rows() > kMostGraphRows ||
      tables.logit_row_count() < 1 || tables.logit_row_count() > limits.logit_rows) {
    return {};
  }
  int max_keys = 0;
  for (int g = 0; g < tables.groups(); ++g) {
    if (tables.group(g).max_rows != 1) return {};
    max_keys = std::max(max_keys, tables.group(g).max_keys);
  }
  return PassShape{tables.rows(), tables.logit_row_count(), max_keys, tables.groups_with_prefix(),
                   tables.groups_with_long_prefix()};
}

}  // namespace

Status begin_pass(CudaDevice& device, const BeginPassArgs& args) {
  PassTables& tables = device.scratch()->tables();
  device.scratch()->plans().forget();
  // A pass that failed may have left its recording open, and nothing else could be queued.
  device.graphs().begin(device.launch().stream, {});
  if (Status s = tables.upload(device.launch().stream, args); !s.ok()) return s;
  TokenSampler& sampler = device.scratch()->sampler();
  if (args.awaited == 0) sampler.forget();
  if (tables.token_draws() != nullptr) {
    const DeviceDrawResult* results = sampler.results_of(args.awaited);
    if (results == nullptr) {
      return error(StatusCode::internal, "begin_pass: nobody awaits draws of number {}",
                   args.awaited);
    }
    Status status = take_tokens(device.launch(), results, tables.token_draws(), tables.rows(),
                                tables.drawn_tokens());
    if (!status.ok()) return status;
  }
  for (const RotationArgs& table : args.rotations) {
    Status status = rotation_rows(device.launch(), tables.positions(), tables.rope_choices(),
                                  tables.rows(), table);
    if (!status.ok()) return status;
  }
  device.graphs().begin(device.launch().stream, shape_of(*device.scratch(), tables));
  return {};
}

}  // namespace quire::cuda
