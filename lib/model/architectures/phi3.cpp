#include <cmath>

#include "model/architectures/architectures.h"
#include "model/rope.h"

namespace quire::model {

// Phi-3, 3.5 and 4 (arXiv 2404.14219): fused projections, LongRoPE, rotation of a part of each
// head.
Result<ModelConfig> configure_phi3(const ConfigSource& source) {
  auto config = configure_common(source, "phi3");
  if (!config) return config;
  LayerNames& names = config->names;
  names.qkv = {"blk.{}.attn_qkv", "model.layers.{}.self_attn.qkv_proj"};
  names.gate_up = {"blk.{}.ffn_up", "model.layers.{}.mlp.gate_up_proj"};

  auto original = source.integer_or(
      {"rope.scaling.original_context_length", "original_max_position_embeddings"}, 1,
      kMaxDimension, 0);
  if (!original) return original.status();
  if (*original == 0) {
    original = source.integer_or({"", "rope_parameters/original_max_position_embeddings"}, 1,
                                 kMaxDimension, 0);
    if (!original) return original.status();
  }
  config->original_context = static_cast<int>(*original);

  const int head_size = config->layers[0].head_size;
  std::int64_t dimensions = head_size;
  if (source.is_gguf()) {
    auto count = source.integer_or({"rope.dimension_count", ""}, 2, head_size, head_size);
    if (!count) return count.status();
    dimensions = *count;
  } else {
    const Key key = source.has({"", "rope_parameters/partial_rotary_factor"})
                        ? Key{"", "rope_parameters/partial_rotary_factor"}
                        : Key{"", "partial_rotary_factor"};
    auto part = source.real_or(key, 1);
    if (!part) return part.status();
    dimensions = static_cast<std::int64_t>(std::lround(*part * head_size));
    if (!(*part > 0 && *part <= 1) || dimensions < 2 || dimensions % 2 != 0) {
      return source.wrong(key, std::to_string(*part),
                          "a part that rotates an even number of elements");
    }
  }
  auto rope = read_rope(source, *config, static_cast<int>(dimensions));
  if (!rope) return rope.status();
  if (rope->long_inverse_frequency.empty()) config->original_context = 0;
  config->ropes.push_back(std::move(*rope));

  auto window =
      source.integer_or({"attention.sliding_window", "sliding_window"}, 0, kMaxDimension, 0);
  if (!window) return window.status();
  set_window(
      *config, static_cast<int>(*window), [](int, int) { return true; }, 0);
  return config;
}

}  // namespace quire::model
