#include "attention/hopper/tile_list.h"

#include <algorithm>

namespace quire::cuda::hopper {
namespace {

constexpr int kThreads = 1024;
constexpr int kSections = 64;  // later ones share the last
constexpr int kLengths = 64;   // tiles are ordered by length in so many steps
constexpr int kSlots = kSections * kLengths;
constexpr int kSlotsPerThread = kSlots / kThreads;

// Sum of `value` over the threads before this one. `scratch` is [kThreads].
__device__ int sum_before(int value, int* scratch) {
  scratch[threadIdx.x] = value;
  __syncthreads();
  for (int distance = 1; distance < kThreads; distance *= 2) {
    const int before =
        static_cast<int>(threadIdx.x) >= distance ? scratch[threadIdx.x - distance] : 0;
    __syncthreads();
    scratch[threadIdx.x] += before;
    __syncthreads();
  }
  const int sum = scratch[threadIdx.x] - value;
  __syncthreads();
  return sum;
}

struct Sequence {
  int rows, first_position, keys, tiles;

  __device__ Sequence(const TileListArgs& args, int index)
      : rows(args.sequences.rows[index]),
        first_position(args.sequences.first_position[index]),
        keys(first_position + rows),
        tiles((rows + args.tile_rows - 1) / args.tile_rows) {}

  __device__ int tile_blocks(const TileListArgs& args, int tile) const {
    const int first = first_position + tile * args.tile_rows;
    const int end = args.causal ? min(first + args.tile_rows, keys) : keys;
    const int begin = args.window > 0 ? max(0, first + 1 - args.window) : 0;
    return (end + args.block_keys - 1) / args.block_keys - begin / args.block_keys;
  }
};

__device__ int slot_of(const TileListArgs& args, int section, int head_section, int blocks) {
  const int all = (args.sequences.max_keys + args.block_keys - 1) / args.block_keys;
  const int length = min(kLengths - 1, blocks * kLengths / (all + 1));
  const int place = section * (args.kv_heads / args.section_heads) + head_section;
  return min(kSections - 1, place) * kLengths + kLengths - 1 - length;
}

// A counting sort of the tiles by section and length.
__global__ void __launch_bounds__(kThreads)
    tile_list_kernel(const __grid_constant__ TileListArgs args) {
  __shared__ int slots[kSlots];
  __shared__ int scratch[kThreads];
  const int thread = threadIdx.x, lane = threadIdx.x % 32;
  const int head_sections = args.kv_heads / args.section_heads;
  for (int i = thread; i < kSlots; i += kThreads) slots[i] = 0;
  __syncthreads();
  for (int pass = 0; pass < 2; ++pass) {
    int keys_before = 0;
    for (int first = 0; first < args.sequences.count; first += kThreads) {
      const int mine = first + thread;
      const int keys = mine < args.sequences.count ? Sequence(args, mine).keys : 0;
      const int before = keys_before + sum_before(keys, scratch);
      if (thread == kThreads - 1) scratch[0] = before + keys;
      __syncthreads();
      keys_before = scratch[0];
      __syncthreads();
      // A warp's sequences, one after the other, a lane for each tile.
      for (int other = 0; other < 32; ++other) {
        const int index = first + (thread - lane) + other;
        const int section = __shfl_sync(0xffffffffu, before, other) / args.section_keys;
        if (index >= args.sequences.count) break;
        const Sequence sequence(args, index);
        for (int i = lane; i < sequence.tiles * head_sections; i += 32) {
          const int tile = i / head_sections, head_section = i % head_sections;
          const int slot = slot_of(args, section, head_section, sequence.tile_blocks(args, tile));
          const int place = atomicAdd(&slots[slot], 1);
          if (pass == 0) continue;
          const int row = tile * args.tile_rows;
          args.list.entries[place] = {args.sequences.first_row[index] + row,
                                      min(args.tile_rows, sequence.rows - row),
                                      sequence.first_position + row,
                                      sequence.keys,
                                      args.sequences.first_page[index],
                                      head_section * args.section_heads * args.group,
                                      {}};
        }
      }
    }
    __syncthreads();
    if (pass == 1) break;
    int sum = 0;
    for (int i = 0; i < kSlotsPerThread; ++i) sum += slots[thread * kSlotsPerThread + i];
    int place = sum_before(sum, scratch);
    if (thread == kThreads - 1) *args.list.counters = {place + sum, 0, 0};
    for (int i = 0; i < kSlotsPerThread; ++i) {
      const int count = slots[thread * kSlotsPerThread + i];
      slots[thread * kSlotsPerThread + i] = place;
      place += count;
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
