#include "attention/hopper/tile_list.h"

#include <algorithm>

namespace quire::cuda::hopper {
namespace {

constexpr int kThreads = 1024;
constexpr int kSections = 64;  // later ones share the last
constexpr int kLengths = 64;   // tiles are ordered by length in so many steps
constexpr int kSlots = kSections * kLengths;
constexpr int kSlotsPerThread = kSlots / kThreads;

// Sum of `value` over the threads before this one, and over all. `scratch` is [kThreads / 32].
__device__ int sum_before(int value, int* scratch, int& total) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  int sum = value;
  for (int distance = 1; distance < 32; distance *= 2) {
    const int other = __shfl_up_sync(0xffffffffu, sum, distance);
    if (lane >= distance) sum += other;
  }
  if (lane == 31) scratch[warp] = sum;
  __syncthreads();
  int before = 0;
  total = 0;
  for (int other = 0; other < kThreads / 32; ++other) {
    if (other < warp) before += scratch[other];
    total += scratch[other];
  }
  __syncthreads();
  return before + sum - value;
}

struct Sequence {
  int first_row, rows, first_position, first_page;
  int section;

  __device__ int keys() const { return first_position + rows; }
  __device__ int tiles(const TileListArgs& args) const {
    return (rows + args.tile_rows - 1) / args.tile_rows;
  }
  __device__ int tile_blocks(const TileListArgs& args, int tile) const {
    const int first = first_position + tile * args.tile_rows;
    const int end = args.causal ? min(first + args.tile_rows, keys()) : keys();
    const int begin = args.window > 0 ? max(0, first + 1 - args.window) : 0;
    return (end + args.block_keys - 1) / args.block_keys - begin / args.block_keys;
  }
  // How long a tile takes, about: blocks by warpgroups that have rows.
  __device__ int tile_work(const TileListArgs& args, int tile) const {
    const int tile_rows = min(args.tile_rows, rows - tile * args.tile_rows);
    return tile_blocks(args, tile) * ((tile_rows + 63) / 64);
  }
};

__device__ int slot_of(const TileListArgs& args, int section, int head_section, int work) {
  const int all =
      (args.sequences.max_keys + args.block_keys - 1) / args.block_keys * (args.tile_rows / 64);
  const int length = min(kLengths - 1, work * kLengths / (all + 1));
  const int place = section * (args.kv_heads / args.section_heads) + head_section;
  return min(kSections - 1, place) * kLengths + kLengths - 1 - length;
}

// A counting sort of the tiles by section and length.
__global__ void __launch_bounds__(kThreads)
    tile_list_kernel(const __grid_constant__ TileListArgs args) {
  __shared__ int slots[kSlots];
  __shared__ Sequence sequences[kThreads];
  __shared__ int scratch[kThreads / 32];
  const int thread = threadIdx.x, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int head_sections = args.kv_heads / args.section_heads;
  const int count = args.sequences.count;
  for (int i = thread; i < kSlots; i += kThreads) slots[i] = 0;
  for (int pass = 0; pass < 2; ++pass) {
    int keys_before = 0;
    for (int first = 0; first < count; first += kThreads) {
      Sequence mine{};
      if (first + thread < count) {
        mine = {args.sequences.first_row[first + thread], args.sequences.rows[first + thread],
                args.sequences.first_position[first + thread],
                args.sequences.first_page[first + thread], 0};
      }
      if (mine.rows < args.least_rows) mine.rows = mine.first_position = 0;
      int keys = 0;
      mine.section = (keys_before + sum_before(mine.keys(), scratch, keys)) / args.section_keys;
      keys_before += keys;
      sequences[thread] = mine;
      __syncthreads();
      // A sequence for each warp, a tile for each lane.
      for (int index = warp; index < min(kThreads, count - first); index += kThreads / 32) {
        const Sequence& sequence = sequences[index];
        for (int i = lane; i < sequence.tiles(args) * head_sections; i += 32) {
          const int tile = i / head_sections, head_section = i % head_sections;
          const int slot =
              slot_of(args, sequence.section, head_section, sequence.tile_work(args, tile));
          const int place = atomicAdd(&slots[slot], 1);
          if (pass == 0) continue;
          const int row = tile * args.tile_rows;
          args.list.entries[place] = {sequence.first_row + row,
                                      min(args.tile_rows, sequence.rows - row),
                                      sequence.first_position + row,
                                      sequence.keys(),
                                      sequence.first_page,
                                      head_section * args.section_heads * args.group,
                                      0,
                                      0};
        }
      }
      __syncthreads();
    }
    if (pass == 1) break;
    int sum = 0, entries = 0;
    for (int i = 0; i < kSlotsPerThread; ++i) sum += slots[thread * kSlotsPerThread + i];
    int place = sum_before(sum, scratch, entries);
    if (thread == 0) *args.list.counters = {entries, 0, 0};
    for (int i = 0; i < kSlotsPerThread; ++i) {
      const int before = place;
      place += slots[thread * kSlotsPerThread + i];
      slots[thread * kSlotsPerThread + i] = before;
    }
    __syncthreads();
  }
}

}  // namespace

TileList tile_list_layout(const TileListShape& shape, std::byte* memory) {
  const int tiles = shape.rows / shape.tile_rows + shape.sequences;
  return {reinterpret_cast<TileCounters*>(memory), reinterpret_cast<TileEntry*>(memory + 256),
          tiles * shape.kv_heads};
}

std::size_t tile_list_bytes(const TileListShape& shape) {
  const TileList list = tile_list_layout(shape, nullptr);
  return 256 + (static_cast<std::size_t>(list.capacity) * sizeof(TileEntry) + 255) / 256 * 256;
}

int section_heads(int kv_heads, int max_keys, int bytes_per_key_and_head) {
  const std::size_t head_bytes = static_cast<std::size_t>(max_keys) * bytes_per_key_and_head;
  for (int parts = 1; parts < kv_heads; ++parts) {
    if (kv_heads % parts == 0 && kv_heads / parts * head_bytes <= kSectionBytes) {
      return kv_heads / parts;
    }
  }
  return 1;
}

Status launch_tile_list(const Launch& launch, const TileListArgs& args) {
  tile_list_kernel<<<1, kThreads, 0, launch.stream>>>(args);
  return status_of(cudaGetLastError(), "the tile list of attention");
}

}  // namespace quire::cuda::hopper
