#pragma once

#include "attention/hopper/pipeline.cuh"
#include "attention/hopper/softmax.cuh"
#include "attention/hopper/wgmma.cuh"

namespace quire::cuda::hopper {

// What warpgroups that compute 64 rows of a tile have in common, whatever the type of keys and
// values.
template <class Shape>
struct ConsumerRows {
  using Pipe = Pipeline<Shape>;
  static constexpr ForwardPolicy kPolicy = Shape::kPolicy;
  static constexpr int kHeadSize = kPolicy.head_size;
  // Named barriers, of each warpgroup one.
  static constexpr int kTurnBarrier = 1, kOwnBarrier = 1 + kPolicy.warpgroups;
  using Sums = float[kHeadSize / 2];

  const ForwardArgs& args;
  Pipe pipe;
  int warpgroup;  // the same in all lanes, known to the compiler as such
  int thread;     // of the warpgroup

  __device__ int lane() const { return thread % 32; }
  __device__ int row(int half) const {
    return first_row() + thread / 32 * 16 + lane() / 4 + half * 8;
  }
  __device__ int first_row() const { return warpgroup * 64; }  // of the warpgroup

  __device__ void release(typename Pipe::Kind kind, int stage) const {
    if (lane() == 0) MemoryBarrier::arrive(pipe.released(kind, stage));
  }
  __device__ void first_turn() const {
    if (kPolicy.ping_pong && warpgroup == 0) arrive_named(kTurnBarrier, 256);
  }
  __device__ void wait_for_turn() const {
    if constexpr (kPolicy.ping_pong) sync_named(kTurnBarrier + warpgroup, 256);
  }
  __device__ void pass_turn() const {
    if constexpr (kPolicy.ping_pong) {
      const int next = warpgroup + 1 == kPolicy.warpgroups ? 0 : warpgroup + 1;
      arrive_named(kTurnBarrier + next, 256);
    }
  }
  __device__ void sync_warpgroup() const { sync_named(kOwnBarrier + warpgroup, 128); }

  // Key blocks that the warpgroup's rows see, of those of the tile, which has some of these rows.
  __device__ TileBlocks own_blocks(Tile tile) const {
    if constexpr (!kPolicy.prefix) {
      tile.first_position += first_row();
      tile.rows = min(64, tile.rows - first_row());
    }
    return Pipe::blocks(args, tile);
  }
  // What the others and the producers need of a warpgroup that does not see the next `count`
  // blocks: its turns, and that it is done with them. `uses` as in State, `first`: they begin the
  // tile.
  __device__ void pass_over(int count, bool first, int& uses) const {
#pragma unroll 1
    for (int i = 0; i < count; ++i) {
      const typename Pipe::Place place(uses++);
      if (i > 0 || !first) {
        wait_for_turn();
        pass_turn();
      }
      MemoryBarrier::wait(pipe.arrived(Pipe::kKeys, place.stage), place.parity);
      release(Pipe::kKeys, place.stage);
      if constexpr (kPolicy.fp8()) release(Pipe::kScales, place.stage);
      MemoryBarrier::wait(pipe.arrived(Pipe::kValues, place.stage), place.parity);
      release(Pipe::kValues, place.stage);
    }
  }
  // The whole tile, of which the warpgroup has no rows.
  __device__ void pass_over(const Tile& tile, int query_stage, int& uses) const {
    const TileBlocks blocks = Pipe::blocks(args, tile);
    if constexpr (kPolicy.fp8()) release(Pipe::kRaw, 0);
    release(Pipe::kQuery, query_stage);
    pass_over(blocks.end - blocks.begin, true, uses);
  }

  // Keys that the thread's rows see.
  __device__ void find_keys(const Tile& tile, int (&first_key)[2], int (&end_key)[2]) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int position = tile.first_position + row(half);
      end_key[half] = args.causal ? min(position + 1, tile.keys) : tile.keys;
      first_key[half] = args.window > 0 ? max(0, position + 1 - args.window) : 0;
    }
  }

  // ptxas moves the wait for the sums up before the softmax, which is to run beside their products.
  // A store that never happens, but depends on all exponentials, stands in its way.
  __device__ void keep_before_wait(float sum) const {
    if (sum < 0) asm volatile("st.shared.f32 [%0], %1;" ::"r"(pipe.unused()), "f"(sum) : "memory");
  }

  // Output and log-sum-exp of the thread's rows: sums of values, and of weights 2^(score - base).
  __device__ void store(const Sums& values, const float (&bases)[2], const float (&weights)[2],
                        const Tile& tile) const {
    constexpr float kLog2E = 1.4426950408889634f;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float sum = weights[half];
      if (args.sinks != nullptr) sum += exp2_fast(args.sinks[tile.head] * kLog2E - bases[half]);
      const float scale = sum > 0 ? 1.0f / sum : 0.0f;
      const bool real = row(half) < tile.rows;
      const int pass_row = tile.first_row + row(half);
      if (args.log_sum_exp != nullptr && real && lane() % 4 == 0) {
        args.log_sum_exp[static_cast<std::size_t>(tile.head) * args.rows + pass_row] =
            sum > 0 ? (bases[half] + __log2f(sum)) / kLog2E : kNoScore;
      }
      __nv_bfloat16* to =
          args.output + (static_cast<std::size_t>(pass_row) * args.heads + tile.head) * kHeadSize +
          lane() % 4 * 8;
#pragma unroll
      for (int i = 0; i < kHeadSize / 2; i += 16) {
        unsigned four[4];
#pragma unroll
        for (int k = 0; k < 4; ++k) {
          four[k] = pack_pair(values[i + 4 * k + 2 * half] * scale,
                              values[i + 4 * k + 2 * half + 1] * scale, __nv_bfloat16{});
        }
        transpose_quad(four, lane());
        if (real)
          *reinterpret_cast<uint4*>(to + i * 2) = make_uint4(four[0], four[1], four[2], four[3]);
      }
    }
  }

  // The same as partial results, neither merged nor divided.
  __device__ void store_partial(const Sums& values, const float (&bases)[2],
                                const float (&weights)[2], const Tile& tile) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      if (row(half) >= tile.rows) continue;
      const auto place = static_cast<std::size_t>(tile.first_row + row(half));
      if (lane() % 4 == 0) args.partial_states[place] = make_float2(bases[half], weights[half]);
      float* to = args.partial + place * kHeadSize + lane() % 4 * 2;
#pragma unroll
      for (int i = 0; i < kHeadSize / 2; i += 4) {
        *reinterpret_cast<float2*>(to + i * 2) =
            make_float2(values[i + 2 * half], values[i + 2 * half + 1]);
      }
    }
  }
};

}  // namespace quire::cuda::hopper
