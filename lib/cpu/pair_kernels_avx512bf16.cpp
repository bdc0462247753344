#include "cpu/pair_kernels.h"

#include <immintrin.h>

#include <cstdint>
#include <cstring>

#include "cpu/lane_math.h"
#include "cpu/lanes_avx512.h"
#include "cpu/matmul_unroll.h"

namespace quire::cpu {
namespace {

// The lanes of this file: a type of its own, so that no template is shared with an object file
// that has other flags.
struct Lanes : Avx512Lanes {};

constexpr int kTileRows = 6;  // rows x vectors of sums that fit beside the operands: 6 x 4
constexpr int kBlock = attention::kKeyBlock;

QUIRE_ALWAYS_INLINE inline __m512bh pairs(__m512i bits) {
  return reinterpret_cast<__m512bh>(bits);
}

// Two bf16 in every lane.
QUIRE_ALWAYS_INLINE inline __m512i broadcast_pair(const float* from) {
  std::int32_t two;
  std::memcpy(&two, from, sizeof two);
  return _mm512_set1_epi32(two);
}

QUIRE_ALWAYS_INLINE inline __m256i round_to_bf16(__m512 x) {
  return reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(x));
}

void write_key_value(const KvLayout& layout, std::byte* head, int token, const float* key,
                     const float* value) {
  const int n = layout.head_size;
  auto* keys = reinterpret_cast<std::uint16_t*>(head) + 2 * token;
  auto* values = reinterpret_cast<std::uint16_t*>(head + layout.values) +
                 static_cast<std::ptrdiff_t>(token / 2) * 2 * n + token % 2;
  std::uint16_t rounded[16];
  for (int i = 0; i < n && key != nullptr; i += 16) {
    const int count = n - i < 16 ? n - i : 16;
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(rounded),
                        round_to_bf16(Lanes::load(key + i, count)));
    for (int j = 0; j < count; j += 2) {  // an odd last element is paired with zero
      std::memcpy(keys + static_cast<std::ptrdiff_t>((i + j) / 2) * 2 * layout.page_size,
                  rounded + j, 2 * sizeof *rounded);
    }
  }
  for (int i = 0; i < n && value != nullptr; i += 16) {
    const int count = n - i < 16 ? n - i : 16;
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(rounded),
                        round_to_bf16(Lanes::load(value + i, count)));
    for (int j = 0; j < count; ++j) values[2 * (i + j)] = rounded[j];
  }
}

void round_query(const float* query, float factor, int head_size, int width, float* to) {
  const __m512 f = Lanes::set(factor);
  auto* rounded = reinterpret_cast<std::uint16_t*>(to);
  for (int i = 0; i < width; i += 16) {
    const int count = head_size - i < 16 ? (head_size > i ? head_size - i : 0) : 16;
    const __m512 x = _mm512_mul_ps(Lanes::load(query + i, count), f);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(rounded + i), round_to_bf16(x));
  }
}

// One vector of 16 tokens in two halves, which pages of 8 keep apart.
struct KeyVector {
  const std::byte* low;
  const std::byte* high;
};

template <bool whole>
QUIRE_ALWAYS_INLINE inline __m512i load_keys(const KeyVector& from, std::ptrdiff_t offset) {
  if constexpr (whole) return _mm512_loadu_si512(from.low + offset);
  const __m256i low = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from.low + offset));
  const __m256i high = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from.high + offset));
  return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
}

template <bool whole, int rows, int vectors>
void score_tile(const KvLayout& layout, const PairBlock& block, const float* queries, int width,
                int first, float* scores) {
  KeyVector from[vectors];
  unroll<vectors>([&](auto v) QUIRE_ALWAYS_INLINE {
    const int eight = 2 * (first + v);
    from[v].low = block.head[eight] + 4 * block.token[eight];
    from[v].high = block.head[eight + 1] + 4 * block.token[eight + 1];
  });
  __m512 sums[rows][vectors];
  unroll<rows>([&](auto r) QUIRE_ALWAYS_INLINE {
    unroll<vectors>([&](auto v) QUIRE_ALWAYS_INLINE { sums[r][v] = _mm512_setzero_ps(); });
  });
  const std::ptrdiff_t stride = std::ptrdiff_t{4} * layout.page_size;
  const int steps = (layout.head_size + 1) / 2;
  for (int i = 0; i < steps; ++i) {
    __m512i keys[vectors];
    unroll<vectors>([&](auto v)
                        QUIRE_ALWAYS_INLINE { keys[v] = load_keys<whole>(from[v], i * stride); });
    unroll<rows>([&](auto r) QUIRE_ALWAYS_INLINE {
      const __m512i query = broadcast_pair(queries + r * width + i);
      unroll<vectors>([&](auto v) QUIRE_ALWAYS_INLINE {
        sums[r][v] = _mm512_dpbf16_ps(sums[r][v], pairs(query), pairs(keys[v]));
      });
    });
  }
  unroll<rows>([&](auto r) QUIRE_ALWAYS_INLINE {
    unroll<vectors>([&](auto v) QUIRE_ALWAYS_INLINE {
      _mm512_storeu_ps(scores + r * kBlock + 16 * (first + v), sums[r][v]);
    });
  });
}

// Calls body with Rows = kTileRows while that many rows are left, then with the rest.
template <int Rows = kTileRows, class Body>
QUIRE_ALWAYS_INLINE inline void each_row_tile(int rows, Body&& body, int row = 0) {
  for (; row + Rows <= rows; row += Rows) body.template operator()<Rows>(row);
  if constexpr (Rows > 1) {
    if (row < rows) each_row_tile<Rows - 1>(rows, body, row);
  }
}

template <bool whole>
void score_rows(const KvLayout& layout, const PairBlock& block, const float* queries, int rows,
                int width, int first, int last, float* scores) {
  each_row_tile(rows, [&]<int Rows>(int row) {
    const float* q = queries + row * width;
    float* s = scores + row * kBlock;
    int v = first;
    for (; v + 4 <= last; v += 4) score_tile<whole, Rows, 4>(layout, block, q, width, v, s);
    for (; v < last; ++v) score_tile<whole, Rows, 1>(layout, block, q, width, v, s);
  });
}

void scores(const KvLayout& layout, const PairBlock& block, const float* queries, int rows,
            int width, int first, int last, float* scores) {
  if (layout.page_size >= 16) {
    score_rows<true>(layout, block, queries, rows, width, first, last, scores);
  } else {
    score_rows<false>(layout, block, queries, rows, width, first, last, scores);
  }
}

constexpr int kVectors = kBlock / 16;

// The scores of a row, capped, and -infinity where the row does not look.
QUIRE_ALWAYS_INLINE inline void load_scores(const float* scores, attention::KeyRange range,
                                            int first, int last, float cap, __m512* s) {
  const __m512 none = Lanes::set(-__builtin_inff());
  unroll<kVectors>([&](auto v) QUIRE_ALWAYS_INLINE {
    s[v] = none;
    if (v >= first && v < last) s[v] = Lanes::load(scores + 16 * v);
  });
  if (cap > 0) {
    const __m512 c = Lanes::set(cap);
    unroll<kVectors>([&](auto v) QUIRE_ALWAYS_INLINE {
      s[v] = _mm512_mul_ps(c, hyperbolic_tangent<Lanes>(_mm512_div_ps(s[v], c)));
    });
  }
  if (range.first > 0 || range.last < kBlock) {
    unroll<kVectors>([&](auto v) QUIRE_ALWAYS_INLINE {
      s[v] = Lanes::select_range(range.first - 16 * v, range.last - 16 * v, s[v], none);
    });
  }
}

float softmax_row(float* scores, attention::KeyRange range, int first, int last, float cap,
                  attention::SoftmaxState& state) {
  auto* weights = reinterpret_cast<__m256i*>(scores);
  __m512 s[kVectors];
  load_scores(scores, range, first, last, cap, s);
  const float block_largest =
      Lanes::largest(_mm512_max_ps(_mm512_max_ps(s[0], s[1]), _mm512_max_ps(s[2], s[3])));
  if (range.first >= range.last || block_largest == -__builtin_inff()) {  // nothing changes
    unroll<kVectors>([&](auto v)
                         QUIRE_ALWAYS_INLINE { _mm256_storeu_si256(weights + v, __m256i{}); });
    return 1;
  }
  const float maximum = state.maximum > block_largest ? state.maximum : block_largest;
  const __m512 subtrahend = Lanes::set(maximum);
  unroll<kVectors>([&](auto v) QUIRE_ALWAYS_INLINE {
    const __m256i rounded = round_to_bf16(exponential<Lanes>(_mm512_sub_ps(s[v], subtrahend)));
    _mm256_storeu_si256(weights + v, rounded);
    s[v] = _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(rounded), 16));
  });
  const float sum = Lanes::sum(_mm512_add_ps(_mm512_add_ps(s[0], s[1]), _mm512_add_ps(s[2], s[3])));
  float rescale = 1;
  if (maximum != state.maximum) {
    rescale =
        Lanes::first(exponential<Lanes>(_mm512_sub_ps(Lanes::set(state.maximum), subtrahend)));
  }
  state.sum = Lanes::first(Lanes::fma(Lanes::set(state.sum), Lanes::set(rescale), Lanes::set(sum)));
  state.maximum = maximum;
  return rescale;
}

constexpr int kRowsAtOnce = 4;  // which are lanes of one vector

// Lane r: Lanes::largest(x[r])
QUIRE_ALWAYS_INLINE inline __m128 largest_of(const __m512* x) {
  __m128 a[kRowsAtOnce];
  unroll<kRowsAtOnce>([&](auto r) QUIRE_ALWAYS_INLINE {
    const __m256 eight =
        _mm256_max_ps(_mm512_castps512_ps256(x[r]), _mm512_extractf32x8_ps(x[r], 1));
    a[r] = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  });
  const __m128 first = _mm_max_ps(_mm_unpacklo_ps(a[0], a[1]), _mm_unpackhi_ps(a[0], a[1]));
  const __m128 second = _mm_max_ps(_mm_unpacklo_ps(a[2], a[3]), _mm_unpackhi_ps(a[2], a[3]));
  return _mm_max_ps(_mm_movelh_ps(first, second), _mm_movehl_ps(second, first));
}

// Lane r: Lanes::sum(x[r]), the same additions.
QUIRE_ALWAYS_INLINE inline __m128 sums_of(const __m512* x) {
  __m128 a[kRowsAtOnce];
  unroll<kRowsAtOnce>([&](auto r) QUIRE_ALWAYS_INLINE {
    const __m256 eight =
        _mm256_add_ps(_mm512_castps512_ps256(x[r]), _mm512_extractf32x8_ps(x[r], 1));
    a[r] = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  });
  const __m128 first = _mm_add_ps(_mm_unpacklo_ps(a[0], a[1]), _mm_unpackhi_ps(a[0], a[1]));
  const __m128 second = _mm_add_ps(_mm_unpacklo_ps(a[2], a[3]), _mm_unpackhi_ps(a[2], a[3]));
  return _mm_add_ps(_mm_movelh_ps(first, second), _mm_movehl_ps(second, first));
}

// softmax_row of four rows, whose chains of operations overlap. False, and nothing done, if one of
// them sees nothing of the block.
bool softmax_rows(float* scores, const attention::KeyRange* ranges, int first, int last, float cap,
                  attention::SoftmaxState* states, float* rescale) {
  __m512 s[kRowsAtOnce][kVectors], of_row[kRowsAtOnce];
  unroll<kRowsAtOnce>([&](auto r) QUIRE_ALWAYS_INLINE {
    load_scores(scores + r * kBlock, ranges[r], first, last, cap, s[r]);
    of_row[r] = _mm512_max_ps(_mm512_max_ps(s[r][0], s[r][1]), _mm512_max_ps(s[r][2], s[r][3]));
  });
  const __m128 block_largest = largest_of(of_row);
  if (_mm_movemask_ps(_mm_cmpeq_ps(block_largest, _mm_set1_ps(-__builtin_inff()))) != 0) {
    return false;
  }
  static_assert(sizeof(attention::SoftmaxState) == 2 * sizeof(float));
  const __m128 before =
      _mm_setr_ps(states[0].maximum, states[1].maximum, states[2].maximum, states[3].maximum);
  const __m128 sums_before =
      _mm_setr_ps(states[0].sum, states[1].sum, states[2].sum, states[3].sum);
  const __m128 maximum = _mm_max_ps(before, block_largest);
  unroll<kRowsAtOnce>([&](auto r) QUIRE_ALWAYS_INLINE {
    constexpr int kLaneOfAll = decltype(r)::kValue * 0x55;
    const __m512 subtrahend = _mm512_broadcastss_ps(_mm_permute_ps(maximum, kLaneOfAll));
    auto* weights = reinterpret_cast<__m256i*>(scores + r * kBlock);
    unroll<kVectors>([&](auto v) QUIRE_ALWAYS_INLINE {
      const __m256i rounded = round_to_bf16(exponential<Lanes>(_mm512_sub_ps(s[r][v], subtrahend)));
      _mm256_storeu_si256(weights + v, rounded);
      s[r][v] = _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(rounded), 16));
    });
    of_row[r] = _mm512_add_ps(_mm512_add_ps(s[r][0], s[r][1]), _mm512_add_ps(s[r][2], s[r][3]));
  });
  // 1 where the maximum has not changed: e^0.
  const __m128 factor = _mm512_castps512_ps128(
      exponential<Lanes>(_mm512_castps128_ps512(_mm_sub_ps(before, maximum))));
  const __m128 sums = _mm_fmadd_ps(sums_before, factor, sums_of(of_row));
  _mm_storeu_ps(rescale, factor);
  float maxima[kRowsAtOnce], new_sums[kRowsAtOnce];
  _mm_storeu_ps(maxima, maximum);
  _mm_storeu_ps(new_sums, sums);
  for (int r = 0; r < kRowsAtOnce; ++r) states[r] = {maxima[r], new_sums[r]};
  return true;
}

void softmax(float* scores, int rows, const attention::KeyRange* ranges, int first, int last,
             float cap, attention::SoftmaxState* states, float* rescale) {
  int row = 0;
  for (; row + kRowsAtOnce <= rows; row += kRowsAtOnce) {
    if (softmax_rows(scores + row * kBlock, ranges + row, first, last, cap, states + row,
                     rescale + row)) {
      continue;
    }
    for (int r = row; r < row + kRowsAtOnce; ++r) {
      rescale[r] = softmax_row(scores + r * kBlock, ranges[r], first, last, cap, states[r]);
    }
  }
  for (; row < rows; ++row) {
    rescale[row] = softmax_row(scores + row * kBlock, ranges[row], first, last, cap, states[row]);
  }
}

// Elements [16 * column, 16 * (column + vectors)) of the output; the last vector may be partial.
template <int rows, int vectors>
void value_tile(const KvLayout& layout, const PairBlock& block, const float* weights,
                const float* rescale, int width, int column, int first, int last, float* output) {
  const int size = layout.head_size;
  const int left = size - 16 * column;
  const __mmask16 mask = vectors > 1 || left >= 16 ? __mmask16{0xffff} : Lanes::mask(left);
  __m512 sums[rows][vectors];
  unroll<rows>([&](auto r) QUIRE_ALWAYS_INLINE {
    unroll<vectors>([&](auto v) QUIRE_ALWAYS_INLINE {
      sums[r][v] = _mm512_mul_ps(Lanes::set(rescale[r]),
                                 Lanes::load(output + r * width + 16 * (column + v)));
    });
  });
  for (int key = first / 2 * 2; key < last; key += 2) {
    const int token = block.token[key / 8] + key % 8;
    const std::byte* from =
        block.head[key / 8] + layout.values + std::ptrdiff_t{4} * (token / 2 * size + 16 * column);
    __m512i values[vectors];
    unroll<vectors>([&](auto v) QUIRE_ALWAYS_INLINE {
      values[v] = _mm512_maskz_loadu_epi32(mask, from + 64 * v);
    });
    if (key + 1 == last) {  // nobody may have written the other token
      unroll<vectors>([&](auto v) QUIRE_ALWAYS_INLINE {
        values[v] = _mm512_and_si512(values[v], _mm512_set1_epi32(0xffff));
      });
    }
    unroll<rows>([&](auto r) QUIRE_ALWAYS_INLINE {
      const __m512i weight = broadcast_pair(weights + r * kBlock + key / 2);
      unroll<vectors>([&](auto v) QUIRE_ALWAYS_INLINE {
        sums[r][v] = _mm512_dpbf16_ps(sums[r][v], pairs(weight), pairs(values[v]));
      });
    });
  }
  unroll<rows>([&](auto r) QUIRE_ALWAYS_INLINE {
    unroll<vectors>([&](auto v) QUIRE_ALWAYS_INLINE {
      _mm512_storeu_ps(output + r * width + 16 * (column + v), sums[r][v]);
    });
  });
}

void accumulate(const KvLayout& layout, const PairBlock& block, const float* weights, int rows,
                const float* rescale, int width, int first, int last, float* output) {
  each_row_tile(rows, [&]<int Rows>(int row) {
    const float* w = weights + row * kBlock;
    float* o = output + row * width;
    int column = 0;
    for (; 16 * (column + 4) <= layout.head_size; column += 4) {
      value_tile<Rows, 4>(layout, block, w, rescale + row, width, column, first, last, o);
    }
    for (; 16 * column < width; ++column) {
      value_tile<Rows, 1>(layout, block, w, rescale + row, width, column, first, last, o);
    }
  });
}

}  // namespace

extern const PairKernels kAvx512Bf16PairKernels;
const PairKernels kAvx512Bf16PairKernels{.write_key_value = write_key_value,
                                         .round_query = round_query,
                                         .scores = scores,
                                         .softmax = softmax,
                                         .accumulate = accumulate};

}  // namespace quire::cpu
