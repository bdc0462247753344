#pragma once

#include "attention/hopper/pipeline.cuh"
#include "attention/hopper/softmax.cuh"

namespace quire::cuda::hopper {

// A warp that brings the scales of fp8 keys and values, both together with the keys. A lane has
// four neighbouring keys of a block.
template <class Shape>
struct ScaleProducer {
  using Pipe = Pipeline<Shape>;
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
        const RingPlace<kStages> stage(uses++);
        MemoryBarrier::wait(pipe.released(Pipe::kKeys, stage.stage), stage.parity ^ 1);
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

  // As ForwardMemory says; 0 for keys that are not wanted.
  __device__ void store(const TileBlocks& blocks, int block, int stage,
                        const Scales& scales) const {
#pragma unroll
    for (int i = 0; i < kQuads; ++i) {
      const int in_block = 4 * (lane + 32 * i);
      if (in_block >= kPolicy.block_keys) break;
      const int key = block * kPolicy.block_keys + in_block;
      const int begin = blocks.first_key - key, end = blocks.end_key - key;
      const float keys[] = {scales.keys[i].x, scales.keys[i].y, scales.keys[i].z, scales.keys[i].w};
      const float values[] = {scales.values[i].x, scales.values[i].y, scales.values[i].z,
                              scales.values[i].w};
      float key_scale[4], exponent[4], inverse[4];
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const bool wanted = e >= begin && e < end;
        const float scale = fmaxf(values[e], kLeastScale);
        key_scale[e] = wanted ? keys[e] : 0.0f;
        exponent[e] = wanted ? log2_fast(scale) : 0.0f;
        inverse[e] = wanted ? reciprocal_fast(scale) : 0.0f;
      }
      const unsigned pairs = pipe.scales(stage) + in_block * 8;
      store_shared(pairs, make_float4(key_scale[0], exponent[0], key_scale[1], exponent[1]));
      store_shared(pairs + 16, make_float4(key_scale[2], exponent[2], key_scale[3], exponent[3]));
      store_shared(pipe.inverse_scales(stage) + in_block * 4,
                   make_float4(inverse[0], inverse[1], inverse[2], inverse[3]));
    }
  }
};

}  // namespace quire::cuda::hopper
