#pragma once

#include <cstddef>
#include <cstdint>

#include "attention/tile_loop.h"
#include "cpu/kv_layout.h"

namespace quire::cpu {

// Where the vectors of 16 tokens of a key block lie: the head's bytes in a page, and the token in
// that page (a multiple of 16).
struct KvVectors {
  const std::byte* head[attention::kKeyBlock / 16];
  int token[attention::kKeyBlock / 16];
};

// What the phases of the model operations are made of, in one instruction set: work on one row of
// float32, any length. All tables give equal bits.
struct RowKernels {
  float (*sum_of_squares)(const float* x, int n);
  // to = x * factor * weight (weight may be null)
  void (*normalise)(const float* x, float factor, const float* weight, int n, float* to);
  void (*scale)(const float* x, float factor, int n, float* to);       // to = factor * x; may alias
  void (*add_scaled)(const float* x, float factor, int n, float* to);  // to += factor * x
  // to += scale * (x * factor * weight)
  void (*add_normed)(const float* x, float factor, const float* weight, float scale, int n,
                     float* to);
  // Rotates halves: x[i], x[i + half] by the angle of cosine[i], sine[i].
  void (*rotate)(float* x, const float* cosine, const float* sine, int half);
  // gate = activation(gate) * up
  void (*silu)(float* gate, const float* up, int n);
  void (*gelu_tanh)(float* gate, const float* up, int n);
  void (*swiglu_clamped)(float* gate, const float* up, int n);
  void (*soft_cap)(float* x, float factor, float cap, int n);  // x = cap * tanh(factor * x / cap)

  // Writes a token's key and value [head_size] into one head of a page; either may be null.
  void (*write_key_value)(const KvLayout& layout, std::byte* head, int token, const float* key,
                          const float* value);
  // Tokens [token, token + count) of a page as columns of keys [head_size][kKeyBlock]; token and
  // count are multiples of 8.
  void (*read_keys)(const KvLayout& layout, const std::byte* head, int token, int count,
                    float* keys);
  // The same tokens as rows of values [count][width], padded with zeros; any token and count.
  void (*read_values)(const KvLayout& layout, const std::byte* head, int token, int count,
                      int width, float* values);
  // attention.scores and attention.accumulate without the conversion to float32 in between, for at
  // most attention::kDirectRows rows; the same bits.
  void (*direct_scores)(const KvLayout& layout, const KvVectors& vectors, const float* queries,
                        int rows, int width, int first, int last, float* scores);
  void (*direct_accumulate)(const KvLayout& layout, const KvVectors& vectors, const float* scores,
                            int rows, const float* rescale, int width, int first, int last,
                            float* output);
  attention::TileKernels attention;
};

}  // namespace quire::cpu
