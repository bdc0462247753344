#include <algorithm>

#include "attention/tile_loop.h"
#include "base/checked.h"
#include "base/error.h"
#include "cpu/kv_block.h"
#include "cpu/operations.h"
#include "cpu/packed_format.h"
#include "cpu/phase.h"
#include "cpu/row_phase.h"
#include "cpu/sequence_check.h"

namespace quire::cpu {
namespace {

using attention::KeyRange;
using attention::kSplitKeys;
using attention::kTileRows;
using attention::SoftmaxState;
using attention::Tile;

// How a pass is cut into tiles: tokens x query heads of one KV head.
struct Shape {
  int group = 0;       // query heads of a KV head
  int tile_heads = 0;  // of them in a tile
  int tile_tokens = 0;
  int head_tiles = 0;  // tiles that cover all query heads

  // Heads of a group stay together, so that they share each key and value, unless threads would be
  // left without work.
  Shape(const PagedAttentionArgs& args, int threads) : group(args.heads / args.kv.kv_heads) {
    set_heads(args, std::min(group, kTileRows));
    while (tile_heads > 1 && tiles(args.sequences) < threads) {
      set_heads(args, ceil_div(tile_heads, 2));
    }
  }

  void set_heads(const PagedAttentionArgs& args, int heads) {
    tile_heads = heads;
    tile_tokens = kTileRows / tile_heads;
    head_tiles = args.kv.kv_heads * ceil_div(group, tile_heads);
  }
  std::int64_t tiles(std::span<const SequenceRows> sequences) const {
    std::int64_t sum = 0;
    for (const SequenceRows& sequence : sequences) sum += tiles(sequence);
    return sum;
  }
  std::int64_t tiles(const SequenceRows& sequence) const {
    return std::int64_t{ceil_div(sequence.rows, tile_tokens)} * head_tiles;
  }
};

// One tile of the pass.
struct Item {
  const SequenceRows* sequence = nullptr;
  int first = 0, tokens = 0;  // rows of the sequence
  int kv_head = 0;
  int head = 0, heads = 0;  // query heads
};

// Tile `index` of the sequence; its last tokens, which see the most keys, come first.
Item item_at(const Shape& shape, const SequenceRows& sequence, std::int64_t index) {
  const int pieces = ceil_div(shape.group, shape.tile_heads);
  const int token_tiles = ceil_div(sequence.rows, shape.tile_tokens);
  const int head_tile = static_cast<int>(index % shape.head_tiles);
  Item item;
  item.sequence = &sequence;
  item.first = (token_tiles - 1 - static_cast<int>(index / shape.head_tiles)) * shape.tile_tokens;
  item.tokens = std::min(shape.tile_tokens, sequence.rows - item.first);
  item.kv_head = head_tile / pieces;
  const int start = head_tile % pieces * shape.tile_heads;
  item.head = item.kv_head * shape.group + start;
  item.heads = std::min(shape.tile_heads, shape.group - start);
  return item;
}

// Calls body(item) for tiles [first, last) of the pass.
template <class Body>
void each_item(const Shape& shape, std::span<const SequenceRows> sequences, std::int64_t first,
               std::int64_t last, Body&& body) {
  std::int64_t start = 0;
  for (const SequenceRows& sequence : sequences) {
    const std::int64_t end = start + shape.tiles(sequence);
    for (std::int64_t i = std::max(first, start); i < std::min(last, end); ++i) {
      body(item_at(shape, sequence, i - start));
    }
    if (end >= last) return;
    start = end;
  }
}

// Everything of a tile that lives while it is computed.
struct TileWork {
  const PagedAttentionArgs& args;
  CpuDevice& device;
  Item item;
  Scratch::TileMemory memory;
  attention::TileKernels kernels;
  KvBlocks blocks;
  KeyRange ranges[kTileRows];
  SoftmaxState states[kTileRows];
  Tile tile;

  TileWork(CpuDevice& d, const PagedAttentionArgs& a, const Item& i, int worker)
      : args(a),
        device(d),
        item(i),
        memory(d.scratch()->tile(worker, a.kv.head_size)),
        kernels(d.row().attention) {
    const int size = args.kv.head_size;
    const PairKernels* pairs = device.pairs(args.kv.type);
    blocks = {&device.row(),
              pairs,
              &args.kv,
              item.sequence->pages,
              device.layout(args.kv.type, args.kv.page_size, size),
              item.kv_head};
    if (pairs != nullptr) kernels.softmax = pairs->softmax;
    tile.rows = item.tokens * item.heads;
    tile.head_size = size;
    tile.width = round_up(size, 16);
    tile.queries = memory.queries;
    tile.ranges = ranges;
    tile.soft_cap = args.soft_cap;
    tile.source = blocks.source();
    for (int row = 0; row < tile.rows; ++row) {
      const int position = item.sequence->first_position + item.first + row / item.heads;
      ranges[row] = {args.window > 0 ? std::max(0, position - args.window + 1) : 0, position + 1};
      const float* query = static_cast<const float*>(args.query) + offset(row);
      float* to = memory.queries + static_cast<std::ptrdiff_t>(row) * tile.width;
      if (pairs != nullptr) {
        pairs->round_query(query, args.scale, size, tile.width, to);
      } else {
        device.row().scale(query, args.scale, size, to);
      }
    }
  }
  TileWork(const TileWork&) = delete;
  TileWork& operator=(const TileWork&) = delete;

  // Row of the tile as (pass row, query head), counted in heads.
  std::int64_t place(int row) const {
    const std::int64_t pass_row = item.sequence->first_row + item.first + row / item.heads;
    return pass_row * args.heads + item.head + row % item.heads;
  }
  std::int64_t offset(int row) const { return place(row) * args.kv.head_size; }
};

// What a pass gives: the rows prepared for the product that follows, or of 0 rows if that has to do
// it; and the floats, if they are not prepared or are read too.
struct Output {
  const PagedAttentionArgs& args;
  Activations prepared;
};

// Row `place` of the output from its sum, which is changed.
void finish_row(const CpuDevice& device, const Output& output, const SoftmaxState& state,
                std::int64_t place, float* sum) {
  const PagedAttentionArgs& args = output.args;
  const int size = args.kv.head_size;
  const auto head = static_cast<int>(place % args.heads);
  const float* sink = args.sinks != nullptr ? args.sinks + head : nullptr;
  const Activations& prepared = output.prepared;
  float* to = sum;
  if (prepared.rows == 0 || prepared.forms.floats) {
    to = static_cast<float*>(args.output) + place * size;
  }
  device.row().scale(sum, attention::finish(state, sink), size, to);
  if (prepared.rows == 0) return;
  device.matmul().prepare(prepared, static_cast<int>(place / args.heads), head * size,
                          (head + 1) * size, to);
}

// Whole tiles, one after the other.
void attend_tiles(CpuDevice& device, const Output& output, const Shape& shape, std::int64_t tiles) {
  const PagedAttentionArgs& args = output.args;
  for_pieces(device.pool(), tiles, 1, [&](std::int64_t first, std::int64_t last, int worker) {
    each_item(shape, args.sequences, first, last, [&](const Item& item) {
      TileWork work(device, args, item, worker);
      attention::attend(work.kernels, work.tile, work.memory.loop, work.states, work.memory.output);
      for (int row = 0; row < work.tile.rows; ++row) {
        finish_row(device, output, work.states[row], work.place(row),
                   work.memory.output + static_cast<std::ptrdiff_t>(row) * work.tile.width);
      }
    });
  });
}

// Few tiles with many keys: the splits of a tile are computed by different threads and then merged
// in the order in which one thread would do it.
void attend_splits(CpuDevice& device, const Output& output, const Shape& shape, std::int64_t tiles,
                   int splits) {
  const PagedAttentionArgs& args = output.args;
  Scratch& scratch = *device.scratch();
  const int width = round_up(args.kv.head_size, 16);
  const auto partial = [&](std::int64_t place, int split) {
    return (place * splits + split) * width;
  };
  for_pieces(
      device.pool(), tiles * splits, 1, [&](std::int64_t first, std::int64_t last, int worker) {
        for (std::int64_t i = first; i < last; ++i) {
          const int split = static_cast<int>(i % splits);
          each_item(shape, args.sequences, i / splits, i / splits + 1, [&](const Item& item) {
            TileWork work(device, args, item, worker);
            const KeyRange covered = attention::covered_splits(work.tile);
            if (split < covered.first || split >= covered.last) return;
            attention::attend_split(work.kernels, work.tile, split, work.memory.loop, work.states,
                                    work.memory.output);
            for (int row = 0; row < work.tile.rows; ++row) {
              const std::int64_t place = work.place(row);
              device.row().scale(work.memory.output + static_cast<std::ptrdiff_t>(row) * width, 1,
                                 width, scratch.partials() + partial(place, split));
              scratch.partial_states()[place * splits + split] = work.states[row];
            }
          });
        }
      });
  each_item(shape, args.sequences, 0, tiles, [&](const Item& item) {
    TileWork work(device, args, item, 0);
    const KeyRange covered = attention::covered_splits(work.tile);
    for (int row = 0; row < work.tile.rows; ++row) {
      const std::int64_t place = work.place(row);
      SoftmaxState* states = scratch.partial_states() + place * splits;
      float* sum = scratch.partials() + partial(place, covered.first);
      SoftmaxState& state = states[covered.first];
      for (int split = covered.first + 1; split < covered.last; ++split) {
        attention::merge_row(device.row().attention, states[split],
                             scratch.partials() + partial(place, split), width, state, sum);
      }
      finish_row(device, output, state, place, sum);
    }
  });
}

Status check(CpuDevice& device, const PagedAttentionArgs& args, int rows) {
  constexpr const char* kWhat = "paged_attention";
  if (Status s = check_rows(device, kWhat, rows, args.kv.head_size); !s) return s;
  const WorkLimits& limits = device.scratch()->limits();
  if (Status s = check_kv(kWhat, args.kv, limits.head_size); !s) return s;
  if (args.heads < 1 || args.heads > limits.heads || args.heads % args.kv.kv_heads != 0) {
    return error(StatusCode::internal, "{}: {} query heads for {} KV heads", kWhat, args.heads,
                 args.kv.kv_heads);
  }
  return check_sequences(kWhat, args.sequences, rows, args.kv, args.window);
}

}  // namespace

Status paged_attention(Device& base, const PagedAttentionArgs& args) {
  auto& device = static_cast<CpuDevice&>(base);
  int rows = 0, keys = 0;
  for (const SequenceRows& sequence : args.sequences) {
    rows += sequence.rows;
    keys = std::max(keys, sequence.first_position + sequence.rows);
  }
  if (rows == 0) return {};
  if (Status status = check(device, args, rows); !status) return status;
  const Shape shape(args, device.threads());
  const std::int64_t tiles = shape.tiles(args.sequences);
  const int splits = ceil_div(keys, kSplitKeys);
  const std::int64_t partials = std::int64_t{rows} * args.heads * splits;
  const bool few = device.threads() > 1 && tiles < 2 * device.threads() && splits > 1 &&
                   partials <= static_cast<std::int64_t>(device.scratch()->partial_rows());
  Output output{args, {}};
  const std::int64_t width = std::int64_t{args.heads} * args.kv.head_size;
  if (args.kv.head_size % kGroup == 0 && width <= device.scratch()->limits().width) {
    output.prepared = {rows, static_cast<int>(width), static_cast<const float*>(args.output),
                       device.scratch()->activations(), device.forms()};
  }
  if (few) {
    attend_splits(device, output, shape, tiles, splits);
  } else {
    attend_tiles(device, output, shape, tiles);
  }
  device.scratch()->keep(output.prepared, args.output);
  return {};
}

}  // namespace quire::cpu
