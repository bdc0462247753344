#pragma once

#include <cstddef>

#include "attention/tile_loop.h"
#include "cpu/kv_layout.h"

namespace quire::cpu {

// Where the tokens of a key block lie, eight by eight: the head's bytes in a page and the token in
// that page.
struct PairBlock {
  const std::byte* head[attention::kKeyBlock / 8];
  int token[attention::kKeyBlock / 8];
};

// Attention whose operands are bf16 and whose sums are float32, for processors that multiply two
// bf16 in each 32-bit lane. Queries and the weights of the softmax are rounded to bf16 too, and the
// weights' sum is that of the rounded ones. A sum is one chain over pairs of elements, or of keys,
// in order, so tiles, pages and chunks change no bit. Pages are laid out with `paired`, see
// KvLayout. "rows x width" arrays have rows of `width` floats, of which bf16 fill the front.
struct PairKernels {
  // Writes a token's key and value [head_size] into one head of a page; either may be null.
  void (*write_key_value)(const KvLayout& layout, std::byte* head, int token, const float* key,
                          const float* value);
  // factor * query, as bf16 padded with zeros to `width`.
  void (*round_query)(const float* query, float factor, int head_size, int width, float* to);
  // scores[row][key] = queries[row] . key for keys of vectors [first, last) of 16.
  void (*scores)(const KvLayout& layout, const PairBlock& block, const float* queries, int rows,
                 int width, int first, int last, float* scores);
  // attention::TileKernels::softmax; the weights are left as bf16 [rows][kKeyBlock floats], of all
  // keys of the block.
  void (*softmax)(float* scores, int rows, const attention::KeyRange* ranges, int first, int last,
                  float soft_cap, attention::SoftmaxState* states, float* rescale);
  // output[row] = rescale[row] * output[row] + sum of weights[row][key] * values[key] over keys
  // [first, last).
  void (*accumulate)(const KvLayout& layout, const PairBlock& block, const float* weights, int rows,
                     const float* rescale, int width, int first, int last, float* output);
};

}  // namespace quire::cpu
