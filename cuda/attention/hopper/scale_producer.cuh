#pragma once

#include "attention/hopper/pipeline.cuh"
#include "attention/hopper/softmax.cuh"

namespace quire::cuda::hopper {

// A warp that brings the scales of fp8 keys and values, both together with the keys. A lane has
// four neighbouring keys of a block.
template <class Shape>
struct ScaleProducer {
  using Pipe = Pipeline<Shape>;
  using Place = typename Pipe::Place;
  static constexpr ForwardPolicy kPolicy = Shape::kPolicy;
  static constexpr int kQuads = (kPolicy.block_keys + 127) / 128;  // of a lane
  // Of values that are all 0, or near it, the scale is taken to be larger.
  static constexpr float kLeastScale = 0x1p-60f;

  const ForwardArgs& args;
  Pipe pipe;
  int lane;

  struct Scales {
    float4 keys[kQuads], values[kQuads];
  };

  __device__ void bring_scales() const {
    int uses = 0;
    for (int count = 0;; ++count) {
      const RingPlace<kPolicy.query_stages> place(count);
      MemoryBarrier::wait(pipe.arrived(Pipe::kTile, place.stage), place.parity);
      const Tile tile = pipe.load_tile(place.stage);
      __syncwarp();
      if (lane == 0) MemoryBarrier::arrive(pipe.released(Pipe::kQuery, place.stage));
      if (tile.rows == 0) return;
      const TileBlocks blocks(args, tile, kPolicy.block_keys);
      Scales now = read(tile, blocks, blocks.end - 1);
      for (int block = blocks.end - 1; block >= blocks.begin; --block) {
        const Place stage(uses++);
        MemoryBarrier::wait(pipe.released(Pipe::kScales, stage.stage), stage.parity ^ 1);
        store(blocks, block, stage.stage, now);
        __syncwarp();
        if (lane == 0) MemoryBarrier::arrive(pipe.arrived(Pipe::kKeys, stage.stage));
        now = read(tile, blocks, block - 1);
      }
    }
  }

 private:
  // Of quads without a wanted key nothing is read.
  __device__ Scales read(const Tile& tile, const TileBlocks& blocks, int block) const {
    Scales scales;
#pragma unroll
    for (int i = 0; i < kQuads; ++i) {
      const int in_block = 4 * (lane + 32 * i);
      const int key = block * kPolicy.block_keys + in_block;
      scales.keys[i] = scales.values[i] = make_float4(0, 0, 0, 0);
      if (in_block >= kPolicy.block_keys || block < blocks.begin || key >= blocks.end_key ||
          key + 4 <= blocks.first_key) {
        continue;
      }
      const int page = __ldg(args.pages + tile.first_page + (key >> args.page_shift));
      const int token =
          tile.head / args.group << args.page_shift | (key & ((1 << args.page_shift) - 1));
      const std::byte* from = args.slab + page * args.page_bytes + token * 4;
      scales.keys[i] = __ldg(reinterpret_cast<const float4*>(from + args.key_scale_offset));
      scales.values[i] = __ldg(reinterpret_cast<const float4*>(from + args.value_scale_offset));
    }
    return scales;
  }

  // As ForwardMemory says.
  __device__ void store(const TileBlocks& blocks, int block, int stage,
                        const Scales& scales) const {
    if (store_alike(blocks, block, stage, scales)) return;
#pragma unroll
    for (int i = 0; i < kQuads; ++i) {
      const int in_block = 4 * (lane + 32 * i);
      if (in_block >= kPolicy.block_keys) break;
      const int key = block * kPolicy.block_keys + in_block;
      float key_scale[4], exponent[4], inverse[4];
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const bool wanted = key + e >= blocks.first_key && key + e < blocks.end_key;
        key_scale[e] = wanted ? element(scales.keys[i], e) : 1.0f;
        const float scale = wanted ? value_scale(scales.values[i], e) : 1.0f;
        exponent[e] = log2_fast(scale);
        inverse[e] = inverse_of(scale);
      }
#pragma unroll
      for (int pair = 0; pair < 2; ++pair) {
        const int e = 2 * pair;
        const unsigned place =
            (in_block % 8 / 2 + pair) * Pipe::kMemory.scale_lane_bytes + in_block / 8 * 8;
        store_shared(pipe.key_scales(stage) + place, make_float2(key_scale[e], key_scale[e + 1]));
        store_shared(pipe.value_exponents(stage) + place,
                     make_float2(exponent[e], exponent[e + 1]));
        store_shared(pipe.inverse_scales(stage) + place, make_float2(inverse[e], inverse[e + 1]));
      }
    }
  }

  // Whether all wanted keys have one scale, and their values one, both powers of two; says so, and
  // which.
  __device__ bool store_alike(const TileBlocks& blocks, int block, int stage,
                              const Scales& scales) const {
    unsigned least[2] = {0xffffffffu, 0xffffffffu}, most[2] = {0, 0};
#pragma unroll
    for (int i = 0; i < kQuads; ++i) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int in_block = 4 * (lane + 32 * i) + e;
        const int key = block * kPolicy.block_keys + in_block;
        if (in_block >= kPolicy.block_keys || key < blocks.first_key || key >= blocks.end_key) {
          continue;
        }
        const unsigned bits[] = {__float_as_uint(element(scales.keys[i], e)),
                                 __float_as_uint(value_scale(scales.values[i], e))};
#pragma unroll
        for (int which = 0; which < 2; ++which) {
          least[which] = min(least[which], bits[which]);
          most[which] = max(most[which], bits[which]);
        }
      }
    }
    bool alike = true;
#pragma unroll
    for (int which = 0; which < 2; ++which) {
      least[which] = __reduce_min_sync(0xffffffffu, least[which]);
      most[which] = __reduce_max_sync(0xffffffffu, most[which]);
      alike = alike && least[which] == most[which] && is_power(most[which]);
    }
    if (lane == 0) {
      const float value = __uint_as_float(most[1]);
      store_shared(
          pipe.block_scales(stage),
          alike ? make_float4(__uint_as_float(most[0]), log2_fast(value), inverse_of(value), 1)
                : make_float4(0, 0, 0, 0));
    }
    return alike;
  }

  __device__ static float element(const float4& four, int e) {
    return e == 0 ? four.x : e == 1 ? four.y : e == 2 ? four.z : four.w;
  }
  __device__ static float value_scale(const float4& four, int e) {
    return fmaxf(element(four, e), kLeastScale);
  }
  // Of a positive float's bits: a power of two whose inverse is one too.
  __device__ static bool is_power(unsigned bits) {
    return (bits & 0x7fffffu) == 0 && bits >= 2u << 23 && bits <= 252u << 23;
  }
  // Exact for powers of two.
  __device__ static float inverse_of(float scale) {
    const unsigned bits = __float_as_uint(scale);
    return is_power(bits) ? __uint_as_float((254u << 23) - bits) : reciprocal_fast(scale);
  }
};

}  // namespace quire::cuda::hopper
