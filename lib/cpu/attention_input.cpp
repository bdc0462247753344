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

// Norm and rotation of all heads of one row, in place.
void finish_heads(const RowKernels& kernels, const AttentionInputArgs& args, const RmsNorm& norm,
                  int heads, std::int64_t row, float* x) {
  const int size = args.kv.head_size;
  const int half = args.rope.dimensions / 2;
  if (args.qk_norm == QkNorm::whole) norm_row(kernels, norm, x, heads * size, x);
  for (int h = 0; h < heads; ++h) {
    float* one = x + static_cast<std::int64_t>(h) * size;
    if (args.qk_norm == QkNorm::per_head) norm_row(kernels, norm, one, size, one);
    if (half > 0) {
      kernels.rotate(one, args.rope.cosine + row * half, args.rope.sine + row * half, half);
    }
  }
}

void write_row(const CpuDevice& device, const AttentionInputArgs& args, const KvLayout& layout,
               const SequenceRows& sequence, std::int64_t row, const float* key,
               const float* value) {
  const PairKernels* pairs = device.pairs(args.kv.type);
  const auto write = pairs != nullptr ? pairs->write_key_value : device.row().write_key_value;
  const int position = sequence.first_position + static_cast<int>(row - sequence.first_row);
  std::byte* slab = args.kv.slab(sequence.pages[position / layout.page_size]);
  for (int h = 0; h < args.kv.kv_heads; ++h) {
    write(layout, slab + layout.head_bytes * static_cast<std::size_t>(h),
          position % layout.page_size, key + h * layout.head_size, value + h * layout.head_size);
  }
}

}  // namespace

Status attention_input(Device& base, const AttentionInputArgs& args) {
  auto& device = static_cast<CpuDevice&>(base);
  if (Status status = check(device, args); !status) return status;
  const RowKernels& kernels = device.row();
  const KvLayout layout = device.layout(args.kv.type, args.kv.page_size, args.kv.head_size);
  const std::int64_t q_width = std::int64_t{args.heads} * args.kv.head_size;
  const std::int64_t kv_width = std::int64_t{args.kv.kv_heads} * args.kv.head_size;
  auto* query = static_cast<float*>(args.query);
  float* keys = device.scratch()->product();
  float* values = keys + args.rows * kv_width;

  const Product all[] = {
      {args.q, query, q_width}, {args.k, keys, kv_width}, {args.v, values, kv_width}};
  const bool writes = writes_keys(args);
  const std::span products(all, writes ? 3 : 1);
  const auto finish = [&](std::int64_t first, std::int64_t last) {
    const SequenceRows* sequence = args.sequences.data();
    for (std::int64_t row = first; row < last; ++row) {
      finish_heads(kernels, args, args.q_norm, args.heads, row, query + row * q_width);
      if (!writes) continue;
      while (row >= sequence->first_row + sequence->rows) ++sequence;
      float* key = keys + row * kv_width;
      finish_heads(kernels, args, args.k_norm, args.kv.kv_heads, row, key);
      write_row(device, args, layout, *sequence, row, key, values + row * kv_width);
    }
  };
  for_normed_parts(
      device, {args.hidden, args.rows, args.width, args.norm}, panels_of(products),
      [&](const RowBlock& rows, const ProductPart& part, int) {
        multiply_part(device, rows, products, part);
      },
      [&](const ProductGrid& grid, auto&& body) {
        for_parts(device, grid, device.scratch()->finished(), body, finish);
      });
  return {};
}

}  // namespace quire::cpu
