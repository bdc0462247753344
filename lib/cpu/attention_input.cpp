#include <algorithm>

#include "base/error.h"
#include "cpu/operations.h"
#include "cpu/row_phase.h"
#include "cpu/sequence_check.h"

namespace quire::cpu {
namespace {

// Otherwise the layer reads the keys and values of another one.
bool writes_keys(const AttentionInputArgs& args) {
  return args.k != nullptr && args.k->weight != nullptr;
}

Status check(CpuDevice& device, const AttentionInputArgs& args) {
  constexpr const char* kWhat = "attention_input";
  const int head_size = args.kv.head_size;
  if (Status s = check_rows(device, kWhat, args.rows, args.width); !s) return s;
  const WorkLimits& limits = device.scratch()->limits();
  if (Status s = check_kv(kWhat, args.kv, limits.head_size); !s) return s;
  if (Status s = check_linear(kWhat, args.q, args.width); !s) return s;
  if (args.heads < args.kv.kv_heads || args.heads > limits.heads ||
      args.q->weight->rows() != std::int64_t{args.heads} * head_size ||
      args.rope.dimensions > head_size || args.rope.dimensions % 2 != 0) {
    return error(StatusCode::internal, "{}: {} heads of {} for a projection of {}", kWhat,
                 args.heads, head_size, args.q->weight->rows());
  }
  if (!writes_keys(args)) return {};
  for (const Linear* linear : {args.k, args.v}) {
    if (Status s = check_linear(kWhat, linear, args.width); !s) return s;
    if (linear->weight->rows() != std::int64_t{args.kv.kv_heads} * head_size) {
      return error(StatusCode::internal, "{}: {} KV heads of {} for a projection of {}", kWhat,
                   args.kv.kv_heads, head_size, linear->weight->rows());
    }
  }
  return check_sequences(kWhat, args.sequences, args.rows, args.kv, 1);
}

// Norm and rotation of a head of one row, in place.
void finish_head(const RowKernels& kernels, const AttentionInputArgs& args, const RmsNorm& norm,
                 std::int64_t row, float* x) {
  const int half = args.rope.dimensions / 2;
  if (args.qk_norm == QkNorm::per_head) norm_row(kernels, norm, x, args.kv.head_size, x);
  if (half > 0) kernels.rotate(x, args.rope.cosine + row * half, args.rope.sine + row * half, half);
}

// The outputs of the products.
struct Heads {
  float* query = nullptr;   // [rows][heads][head_size]
  float* keys = nullptr;    // [rows][kv_heads][head_size]
  float* values = nullptr;  // the same
};

// Heads [first, last), counted over queries, keys and values, of rows [first_row, last_row): norm,
// rotation and, of keys and values, to the pages.
void finish_heads(const CpuDevice& device, const AttentionInputArgs& args, const Heads& heads,
                  std::int64_t first, std::int64_t last, int first_row, int last_row) {
  const RowKernels& kernels = device.row();
  const PairKernels* pairs = device.pairs(args.kv.type);
  const auto write = pairs != nullptr ? pairs->write_key_value : kernels.write_key_value;
  const KvLayout layout = device.layout(args.kv.type, args.kv.page_size, args.kv.head_size);
  const std::int64_t size = args.kv.head_size, kv_heads = args.kv.kv_heads;
  const SequenceRows* sequence = args.sequences.data();
  for (std::int64_t row = first_row; row < last_row; ++row) {
    for (std::int64_t h = first; h < std::min<std::int64_t>(last, args.heads); ++h) {
      finish_head(kernels, args, args.q_norm, row, heads.query + (row * args.heads + h) * size);
    }
    if (last <= args.heads) continue;
    while (row >= sequence->first_row + sequence->rows) ++sequence;
    const int position = sequence->first_position + static_cast<int>(row - sequence->first_row);
    const int token = position % layout.page_size;
    std::byte* slab = args.kv.slab(sequence->pages[position / layout.page_size]);
    for (std::int64_t h = std::max<std::int64_t>(first, args.heads) - args.heads;
         h < last - args.heads; ++h) {
      const bool is_key = h < kv_heads;
      const std::int64_t head = is_key ? h : h - kv_heads;
      float* x = (is_key ? heads.keys : heads.values) + (row * kv_heads + head) * size;
      if (is_key) finish_head(kernels, args, args.k_norm, row, x);
      write(layout, slab + layout.head_bytes * static_cast<std::size_t>(head), token,
            is_key ? x : nullptr, is_key ? nullptr : x);
    }
  }
}

// Panels of a head, if a part of the products can consist of whole heads and there are enough of
// them; otherwise 0.
std::int64_t head_panels(const CpuDevice& device, const AttentionInputArgs& args,
                         std::int64_t panels) {
  const int size = args.kv.head_size;
  if (size % kPanelRows != 0 || args.qk_norm == QkNorm::whole) return 0;
  const std::int64_t unit = std::int64_t{size} / kPanelRows;
  const ProductGrid grid = product_grid(device, args.rows, panels, unit);
  return grid.pieces() >= device.threads() ? unit : 0;
}

}  // namespace

Status attention_input(Device& base, const AttentionInputArgs& args) {
  auto& device = static_cast<CpuDevice&>(base);
  if (Status status = check(device, args); !status) return status;
  const std::int64_t q_width = std::int64_t{args.heads} * args.kv.head_size;
  const std::int64_t kv_width = std::int64_t{args.kv.kv_heads} * args.kv.head_size;
  float* keys = device.scratch()->product();
  const Heads heads{static_cast<float*>(args.query), keys, keys + args.rows * kv_width};
  const Product all[] = {{args.q, heads.query, q_width},
                         {args.k, heads.keys, kv_width},
                         {args.v, heads.values, kv_width}};
  const std::span products(all, writes_keys(args) ? 3 : 1);
  const std::int64_t count = args.heads + (writes_keys(args) ? 2 * args.kv.kv_heads : 0);
  const NormedRows rows{args.hidden, args.rows, args.width, args.norm};
  const std::int64_t panels = panels_of(products);
  if (const std::int64_t unit = head_panels(device, args, panels); unit > 0) {
    // Whoever has computed a head goes on with it.
    const ProductGrid grid = product_grid(device, args.rows, panels, unit);
    for_normed_parts(
        device, rows,
        [&](const RowBlock& block, const ProductPart& part, int) {
          multiply_part(device, block, products, part);
          finish_heads(device, args, heads, part.first_panel / unit, part.last_panel / unit,
                       part.first_token, part.last_token);
        },
        [&](auto&& body) { for_parts(device, grid, body); });
    return {};
  }
  const auto finish_rows = [&](int first, int last) {
    for (std::int64_t row = first; row < last && args.qk_norm == QkNorm::whole; ++row) {
      float* query = heads.query + row * q_width;
      norm_row(device.row(), args.q_norm, query, static_cast<int>(q_width), query);
      if (!writes_keys(args)) continue;
      float* key = heads.keys + row * kv_width;
      norm_row(device.row(), args.k_norm, key, static_cast<int>(kv_width), key);
    }
    finish_heads(device, args, heads, 0, count, first, last);
  };
  const ProductGrid grid = product_grid(device, args.rows, panels);
  for_normed_parts(
      device, rows,
      [&](const RowBlock& block, const ProductPart& part, int) {
        multiply_part(device, block, products, part);
      },
      [&](auto&& body) {
        for_parts(device, grid, device.scratch()->finished(), body, finish_rows);
      });
  return {};
}

}  // namespace quire::cpu
