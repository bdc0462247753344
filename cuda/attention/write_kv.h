#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <cuda_bf16.h>

#include "attention/kv_view.h"
#include "base/launch.h"

namespace quire::cuda {

enum class QkNormKind { none, per_head, whole };

// What stands between the Q K V product and attention: bias, normalisation of Q and K, RoPE, and K
// and V written to their pages.
//
// For fp8 pages Q and K then go through a random rotation of the head (signs and a Hadamard
// transform: FlashAttention-3, Shah et al. 2024), which leaves their product what it was but
// spreads large channels over all: rounding to 8 bits takes less. Of a head that is no power of two
// each block of the largest one that divides it is rotated.
struct WriteKvCall {
  int rows = 0;
  int heads = 0;
  const float* projected = nullptr;  // [rows][(heads + 2 kv_heads) * head_size]: Q, K, V of a row;
                                     // only Q when `has_kv` is false
  bool has_kv = true;                // false: K and V of these rows are another layer's
  const float* q_bias = nullptr;     // [heads * head_size], or null; k, v: [kv_heads * head_size]
  const float* k_bias = nullptr;
  const float* v_bias = nullptr;
  QkNormKind norm = QkNormKind::none;
  const float* q_norm = nullptr;  // [head_size], or of the whole projection; null: no weight
  const float* k_norm = nullptr;
  float epsilon = 0;
  int rope_dimensions = 0;        // even; 0: none. Halves are rotated: i with i + dimensions / 2
  const float* cosine = nullptr;  // [rows][rope_dimensions / 2]
  const float* sine = nullptr;
  KvView kv;
  SequenceTable sequences;
  __nv_bfloat16* query = nullptr;  // out [rows][heads][head_size]
};

Status write_kv(const Launch& launch, const WriteKvCall& call);

// Bytes of one layer's slab in a page; 0 for a type that the backend does not have.
std::size_t kv_slab_bytes(KvType type, int page_size, int kv_heads, int head_size);

// Copies the first `tokens` tokens of page `from` to page `to`, all `layers` layers of the group.
struct KvCopy {
  std::int32_t from = 0, to = 0, tokens = 0;
};
// `copies` [count] is device memory.
Status copy_kv_pages(const Launch& launch, const KvView& first_layer, int layers,
                     const KvCopy* copies, int count);

}  // namespace quire::cuda
