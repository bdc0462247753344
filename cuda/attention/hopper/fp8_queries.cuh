#pragma once

#include "attention/hopper/consumer_rows.cuh"

namespace quire::cuda::hopper {

// A warpgroup's queries where keys are fp8: brought in bf16, rounded to e4m3 with a scale for each
// row.
template <class Shape>
struct Fp8Queries : ConsumerRows<Shape> {
  using Rows = ConsumerRows<Shape>;
  using Pipe = typename Rows::Pipe;
  using Rows::kHeadSize;
  using Rows::kPolicy;
  using Rows::pipe;
  using Rows::release;
  using Rows::thread;
  using Rows::warpgroup;
  static constexpr int kRow = kPolicy.key_row();  // bytes of a row of codes, as of keys
  static constexpr int kPartBytes = kPolicy.rows() * kRow;
  static constexpr float kLargest = 448;
  static constexpr float kLeastQuery = 0x1p-60f;  // of a row of zeros: its factor stays positive

  __device__ unsigned own_codes() const { return pipe.query_codes() + warpgroup * 64 * kRow; }
  __device__ unsigned scale_of(int own_row) const {
    return pipe.query_scales() + (warpgroup * 64 + own_row) * 4;
  }

  // Two threads a row; releases the place of the queries as they came.
  __device__ void round(int stage) const {
    constexpr int kBrought = kPolicy.query_row();
    const unsigned brought = pipe.query(stage) + warpgroup * 64 * kBrought;
    constexpr int kChunks = kHeadSize / 16;  // of 16 bytes, that a thread reads
    const int own_row = thread / 2, half = thread % 2;
    unsigned pairs[kChunks][4];
    float largest = 0;
#pragma unroll
    for (int i = 0; i < kChunks; ++i) {
      const int chunk = half * kChunks + i;
      load_shared(pairs[i], brought + chunk / 8 * kPolicy.rows() * kBrought + own_row * kBrought +
                                ((chunk % 8) ^ (own_row % 8)) * 16);
#pragma unroll
      for (const unsigned pair : pairs[i]) {
        largest = fmaxf(largest, fmaxf(fabsf(low_half(pair)), fabsf(high_half(pair))));
      }
    }
    largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, 1));
    const float inverse = largest > 0 ? kLargest / largest : 0.0f;
    Rows::sync_warpgroup();
    release(Pipe::kRaw, 0);
#pragma unroll
    for (int i = 0; i < kChunks / 2; ++i) {
      unsigned codes[4];
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        const unsigned low = pairs[2 * i + k / 2][k % 2 * 2];
        const unsigned high = pairs[2 * i + k / 2][k % 2 * 2 + 1];
        codes[k] = pack_codes(low_half(low) * inverse, high_half(low) * inverse,
                              low_half(high) * inverse, high_half(high) * inverse);
      }
      const int chunk = half * kChunks / 2 + i;
      constexpr int kRowChunks = kRow / 16;
      const int swizzle = kRow == 128 ? own_row % 8 : own_row / 2 % 4;
      store_shared(own_codes() + chunk / kRowChunks * kPartBytes + own_row * kRow +
                       ((chunk % kRowChunks) ^ swizzle) * 16,
                   codes);
    }
    if (half == 0) {
      store_shared(scale_of(own_row), fmaxf(largest, kLeastQuery) / kLargest);
    }
    publish_shared_writes();
    Rows::sync_warpgroup();
  }
};

}  // namespace quire::cuda::hopper
