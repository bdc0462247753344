#include "cpu/scratch.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "base/checked.h"
#include "base/error.h"

namespace quire::cpu {
namespace {

constexpr std::size_t kAlignment = 64;

std::uint64_t padded(int head_size) {
  return round_up(static_cast<std::uint64_t>(head_size), std::uint64_t{16});
}

// Floats of one thread's tile: keys, values, scores, and three arrays of rows.
CheckedSize tile_floats(int head_size) {
  const std::uint64_t width = padded(head_size);
  return CheckedSize(width) * (2 * attention::kKeyBlock + 3 * attention::kTileRows) +
         CheckedSize(attention::kTileRows) * attention::kKeyBlock;
}

// Partial rows kept when the keys of few rows are split over threads: enough for one token of each
// head per two threads.
CheckedSize partial_rows(const WorkLimits& limits, int threads) {
  const int splits = ceil_div(std::max(limits.context, 1), attention::kSplitKeys);
  const int tokens = threads > 1 ? std::clamp(threads / 2, 1, 16) : 0;
  return CheckedSize(limits.heads) * splits * tokens;
}

class Offsets {
 public:
  std::size_t add(CheckedSize bytes) {
    const std::size_t offset = total_;
    const auto size = bytes.get();
    const auto end = size && *size < SIZE_MAX - kAlignment
                         ? checked_add<std::size_t>(total_, round_up(*size, kAlignment))
                         : std::nullopt;
    failed_ = failed_ || !end;
    total_ = end.value_or(0);
    return offset;
  }
  std::size_t total() const { return failed_ ? SIZE_MAX : total_; }

 private:
  std::size_t total_ = 0;
  bool failed_ = false;
};

}  // namespace

ScratchPlan plan_scratch(const WorkLimits& limits, int threads) {
  const std::uint64_t rows = std::max({limits.rows, limits.logit_rows, 1});
  const std::uint64_t width = std::max(limits.width, 1);
  const CheckedSize heads = CheckedSize(limits.heads) * limits.head_size;
  const std::uint64_t keys_and_values = (heads * 2).get().value_or(SIZE_MAX);
  ScratchPlan plan;
  Offsets offsets;
  plan.normed = offsets.add(CheckedSize(rows) * width * 4);
  plan.product = offsets.add(CheckedSize(rows) * std::max(width, keys_and_values) * 4);
  plan.activations = offsets.add(CheckedSize(rows) * activation_bytes(1, static_cast<int>(width)));
  plan.block_width = limits.hidden > 0 ? std::min(limits.hidden, limits.width) : limits.width;
  plan.block_rows = static_cast<int>(std::clamp<std::uint64_t>(
      rows / static_cast<std::uint64_t>(threads) + kTokenUnit, kBlockRows / 2, kBlockRows));
  const std::uint64_t block_row = static_cast<std::uint64_t>(std::max(plan.block_width, 1)) * 4 +
                                  activation_bytes(1, std::max(plan.block_width, 1));
  plan.block_bytes =
      round_up((CheckedSize(plan.block_rows) * block_row).get().value_or(SIZE_MAX / 2), kAlignment);
  plan.blocks = offsets.add(CheckedSize(plan.block_bytes) * threads);
  plan.chunk_bytes =
      round_up((CheckedSize(rows) * 2 * kPanelRows * 4).get().value_or(SIZE_MAX / 4), kAlignment);
  plan.chunk_bytes = std::max(plan.chunk_bytes, static_cast<std::size_t>(kChunkBytes));
  plan.chunks = offsets.add(CheckedSize(plan.chunk_bytes) * 2 * threads);
  plan.experts = offsets.add(CheckedSize(2 * kExpertRows) * width * 4);
  const CheckedSize partials = partial_rows(limits, threads);
  plan.partial_rows = partials.get().value_or(0);
  plan.partials = offsets.add(partials * padded(limits.head_size) * 4);
  plan.partial_states = offsets.add(partials * sizeof(attention::SoftmaxState));
  plan.tile_bytes =
      round_up((tile_floats(limits.head_size) * 4).get().value_or(SIZE_MAX / 2), kAlignment);
  plan.tiles = offsets.add(CheckedSize(plan.tile_bytes) * threads);
  plan.bytes = offsets.total();
  const CheckedSize draw =
      CheckedSize(limits.vocabulary) * (sizeof(float) + sizeof(std::pair<float, std::int32_t>));
  plan.draws = draw.get().value_or(SIZE_MAX);
  plan.total = (CheckedSize(plan.bytes) + draw * threads).get().value_or(SIZE_MAX);
  return plan;
}

Result<Scratch> Scratch::create(Device& device, const WorkLimits& limits, int threads) {
  const WorkLimits& l = limits;
  if (std::min({l.rows, l.width, l.heads, l.head_size, l.logit_rows, l.vocabulary, l.context}) <
      0) {
    return error(StatusCode::invalid_argument, "reserve: a work limit is negative");
  }
  Scratch scratch;
  scratch.limits_ = limits;
  scratch.plan_ = plan_scratch(limits, threads);
  if (scratch.plan_.total == SIZE_MAX) {
    return error(StatusCode::resource_exhausted, "reserve: {} rows of {} floats do not fit memory",
                 limits.rows, limits.width);
  }
  Result<std::unique_ptr<DeviceBuffer>> buffer = device.allocate(scratch.plan_.bytes);
  if (!buffer) return buffer.status();
  scratch.buffer_ = std::move(*buffer);
  return guarded("reserve", [&]() -> Result<Scratch> {
    scratch.draws_.resize(static_cast<std::size_t>(threads));
    scratch.blocks_.resize(static_cast<std::size_t>(threads));
    scratch.finished_.resize(static_cast<std::size_t>(threads));
    for (DrawScratch& draw : scratch.draws_) {
      draw.logits.reserve(static_cast<std::size_t>(limits.vocabulary));
      draw.candidates.reserve(static_cast<std::size_t>(limits.vocabulary));
    }
    return std::move(scratch);
  });
}

void Scratch::keep(const Activations& prepared, const void* array) {
  kept_ = prepared;
  kept_array_ = array;
  unwritten_ = prepared.rows > 0 && !prepared.forms.floats ? array : nullptr;
}

Activations Scratch::take_kept(const void* array, int rows, int columns) {
  const Activations kept = std::exchange(kept_, {});
  const bool same = kept_array_ == array && kept.rows == rows && kept.columns == columns;
  return same ? kept : Activations{};
}

Scratch::BlockMemory Scratch::block(int worker) {
  const auto index = static_cast<std::size_t>(worker);
  const std::size_t start = plan_.blocks + plan_.block_bytes * index;
  const auto width = static_cast<std::size_t>(std::max(plan_.block_width, 1));
  const std::size_t prepared = activation_bytes(plan_.block_rows, static_cast<int>(width));
  BlockMemory memory;
  memory.prepared = at<std::byte>(start);
  memory.normed = at<float>(start + prepared);
  memory.state = &blocks_[index];
  return memory;
}

Scratch::TileMemory Scratch::tile(int worker, int head_size) {
  const auto width = static_cast<std::size_t>(padded(head_size));
  float* next = at<float>(plan_.tiles + plan_.tile_bytes * static_cast<std::size_t>(worker));
  const auto take = [&](std::size_t floats) {
    float* part = next;
    next += floats;
    return part;
  };
  TileMemory memory;
  memory.loop.keys = take(width * attention::kKeyBlock);
  memory.loop.values = take(width * attention::kKeyBlock);
  memory.loop.scores = take(static_cast<std::size_t>(attention::kTileRows) * attention::kKeyBlock);
  memory.loop.partial = take(width * attention::kTileRows);
  memory.queries = take(width * attention::kTileRows);
  memory.output = take(width * attention::kTileRows);
  return memory;
}

}  // namespace quire::cpu
