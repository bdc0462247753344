#pragma once

#include "matmul/stream_copies.cuh"
#include "matmul/stream_rows.cuh"

// Products of bfloat weights with 9 to 64 tokens on compute capability 9.0a: bound by reading the
// weights. Two warpgroups multiply tiles of up to 256 rows, a unit of 128 each. One more warp
// streams the weights through a ring for each ahead of them, from tile to tile and before the
// kernel before has ended; another brings the input. With several slices, the thread blocks of a
// cluster share the columns of one tile, and each adds up and stores the sums of some tokens.
namespace quire::cuda {

#if __CUDA_ARCH__ >= 900
// The part of one of the warps that multiply.
template <int kTokenTiles>
class StreamProducts {
 public:
  using Layout = StreamLayout<kTokenTiles>;

  __device__ __forceinline__ StreamProducts(const ProductArgs& args, const StreamPlace& place,
                                            std::byte* memory, int warp)
      : args_(args),
        place_(place),
        memory_(memory),
        shared_(shared_address(memory)),
        warp_(warp),
        lane_(threadIdx.x % 32) {
    next_.weights[1].advance(place.slots);
  }

  __device__ __forceinline__ void run() {
#pragma unroll 1
    for (int tile = place_.first_tile; tile < place_.tiles; tile += place_.tile_step) {
      add_tile();
      spread_sums();
      store_sums(tile);
      publish_shared_writes();
      __syncwarp();
      if (lane_ == 0) arrive(shared_ + Layout::kStored);
    }
  }

 private:
  // Where the weights and the input of a block are.
  struct Block {
    RingPlace weights[2], input;
  };

  __device__ __forceinline__ void add_tile() {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int n = 0; n < kTokenTiles; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) sums_[half][n][i] = 0;
      }
    }
    Block last;
    bool held = false;  // the last block's slots
#pragma unroll 1
    for (int left = place_.end - place_.begin; left > 0; --left) {
      const Block block = next_;
      wait_barrier(input_full(block), block.input.parity);
      const std::uint64_t input =
          swizzled_operand(shared_ + Layout::kInputs + block.input.slot * Layout::kInputBytes);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        wait_barrier(weights_full(block, half), block.weights[half].parity);
        fence_products();
        const std::uint64_t weights =
            swizzled_operand(shared_ + warp_ / 4 * Layout::kRingBytes +
                             block.weights[half].slot * place_.slot_bytes);
#pragma unroll
        for (int t = 0; t < 4; ++t) {
          multiply_add_async(sums_[half], weights + 2 * t, input + 2 * t);
        }
      }
      commit_products();
      if (held) {
        wait_for_products<1>();
        release(last);
      }
      next_.input.advance(kStreamInputs);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        next_.weights[half].advance(place_.slots);
        next_.weights[half].advance(place_.slots);
      }
      // Where the weights are late, no slot waits for the next block.
      held = left > 1 && is_there(next_);
      if (!held) {
        wait_for_products<0>();
        release(block);
      }
      last = block;
    }
    wait_for_products<0>();
  }
  __device__ __forceinline__ std::uint32_t barrier(const Block& block, int half) const {
    return shared_ + 8 * (warp_ / 4 * kStreamMostSlots + block.weights[half].slot);
  }
  __device__ __forceinline__ std::uint32_t weights_full(const Block& block, int half) const {
    return barrier(block, half) + Layout::kWeightsFull;
  }
  __device__ __forceinline__ std::uint32_t input_full(const Block& block) const {
    return shared_ + Layout::kInputFull + 8 * block.input.slot;
  }
  __device__ __forceinline__ bool is_there(const Block& block) const {
    const bool there = test_barrier(input_full(block), block.input.parity) &&
                       test_barrier(weights_full(block, 0), block.weights[0].parity) &&
                       test_barrier(weights_full(block, 1), block.weights[1].parity);
    return __all_sync(0xffffffff, there);
  }
  __device__ __forceinline__ void release(const Block& block) const {
    if (lane_ != 0) return;
    arrive(barrier(block, 0) + Layout::kWeightsFree);
    arrive(barrier(block, 1) + Layout::kWeightsFree);
    arrive(shared_ + Layout::kInputFree + 8 * block.input.slot);
  }

  // The sums to where the input was, [token][256 rows], rows as wgmma has them; the 16-byte pieces
  // of a token at piece ^ (token / 2 % 4 * 2).
  __device__ __forceinline__ void spread_sums() {
    group_barrier(1, kStreamWarps * 32);  // no product reads the input any more
    const int tiles = (args_.tokens + 7) / 8, pair = lane_ % 4;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int row = warp_ * 16 + warp_ / 4 * 64 + i * 8 + lane_ / 4;
      std::byte* to =
          memory_ + Layout::kInputs + pair * 2048 + (row / 4 ^ pair * 2) * 16 + row % 4 * 4;
#pragma unroll
      for (int n = 0; n < kTokenTiles; ++n) {
        if (n >= tiles) break;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          float* place = reinterpret_cast<float*>(to + n * 8192 + half * 256);
          place[0] = sums_[half][n][2 * i];
          place[256] = sums_[half][n][2 * i + 1];
        }
      }
    }
  }

  // Each warp of the cluster adds up and stores the sums of a unit (gated: of both) for some
  // tokens, four rows a lane.
  __device__ __forceinline__ void store_sums(int tile) {
    constexpr int kTogether = 4;  // tokens
    const bool clustered = args_.slices > 1;
    const int units = args_.gated ? 1 : kStreamUnits;  // that warps have apart
    const int step = args_.slices * kStreamWarps / units;
    const int unit = args_.gated ? lane_ / 16 : warp_ % kStreamUnits;
    if (clustered) arrive_at_cluster();
    const StreamRows rows(args_, tile * kStreamUnits + unit, lane_);
    const int piece = (unit * kStreamUnitRows + rows.place()) / 4;
    int token = (place_.slice * kStreamWarps + warp_) / units;
    bool waits = true;
    do {
      float4 old[kTogether], sums[kTogether], up[kTogether];
#pragma unroll
      for (int i = 0; i < kTogether; ++i) {
        old[i] = token + i * step < args_.tokens ? rows.read(token + i * step) : float4{};
      }
      if (waits && clustered) wait_for_cluster();
      if (waits && !clustered) group_barrier(1, kStreamWarps * 32);
      waits = false;
#pragma unroll
      for (int i = 0; i < kTogether; ++i) {
        const int from = token + i * step;
        const bool any = rows.any() && from < args_.tokens;
        sums[i] = any ? add_slices(from, piece) : float4{};
        up[i] = any && args_.gated ? add_slices(from, piece + 16) : float4{};
      }
      const bool last = token + kTogether * step >= args_.tokens;
      if (clustered && last) arrive_at_cluster();  // has read all that it will
#pragma unroll
      for (int i = 0; i < kTogether; ++i) {
        if (token + i * step < args_.tokens) rows.write(token + i * step, sums[i], up[i], old[i]);
      }
      token += kTogether * step;
    } while (token < args_.tokens);
    if (clustered) wait_for_cluster();
  }
  __device__ __forceinline__ float4 add_slices(int token, int piece) const {
    const int place = Layout::kInputs + token * 1024 + (piece ^ token / 2 % 4 * 2) * 16;
    if (args_.slices == 1) return *reinterpret_cast<const float4*>(memory_ + place);
    float4 addends[kStreamSlices];
#pragma unroll
    for (int s = 0; s < kStreamSlices; ++s) {
      addends[s] = s < args_.slices ? load_from_peer(shared_of_peer(shared_ + place, s)) : float4{};
    }
    float4 sum{};
#pragma unroll
    for (int s = 0; s < kStreamSlices; ++s) {
      sum.x += addends[s].x, sum.y += addends[s].y, sum.z += addends[s].z, sum.w += addends[s].w;
    }
    return sum;
  }

  const ProductArgs& args_;
  const StreamPlace& place_;
  std::byte* memory_;
  const std::uint32_t shared_;
  const int warp_, lane_;
  Block next_;
  float sums_[2][kTokenTiles][4];
};
#endif

template <int kTokenTiles>
__global__ void __launch_bounds__(kStreamThreads, 1)
    stream_tokens(const __grid_constant__ ProductArgs args, const __grid_constant__ WideMaps maps) {
#if __CUDA_ARCH__ >= 900
  extern __shared__ __align__(1024) std::byte memory[];
  using Layout = StreamLayout<kTokenTiles>;
  const std::uint32_t shared = shared_address(memory);
  const int warp = __shfl_sync(0xffffffff, threadIdx.x / 32, 0);  // uniform to the compiler too
  if (threadIdx.x == 0) {
    for (int i = 0; i < kStreamUnits * kStreamMostSlots; ++i) {
      init_barrier(shared + Layout::kWeightsFull + 8 * i, 1);
      init_barrier(shared + Layout::kWeightsFree + 8 * i, 4);
    }
    for (int i = 0; i < kStreamInputs; ++i) {
      init_barrier(shared + Layout::kInputFull + 8 * i, 1);
      init_barrier(shared + Layout::kInputFree + 8 * i, kStreamWarps);
    }
    init_barrier(shared + Layout::kStored, kStreamWarps);
    fence_barriers();
  }
  __syncthreads();
  const StreamPlace place(args, Layout::kRingBytes);
  if (warp == kStreamWarps) {
    if (elect_lane()) stream_weights<kTokenTiles>(args, maps, place, shared);
  } else if (warp == kStreamWarps + 1) {
    if (elect_lane()) stream_input<kTokenTiles>(args, maps, place, shared);
  } else {
    wait_for_previous_kernel();
    StreamProducts<kTokenTiles>(args, place, memory, warp).run();
  }
#endif
}

}  // namespace quire::cuda
