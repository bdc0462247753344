#include "model/gemma.h"

#include <cmath>

#include "base/error.h"
#include "model/architecture.h"

namespace quire::model {

Result<ModelConfig> configure_gemma_common(const ConfigSource& source, std::string_view name,
                                           int wide_layers) {
  auto config = configure_common(source, name);
  if (!config) return config;
  config->embedding_scale = std::sqrt(static_cast<float>(config->width));
  config->norm_offset = 1;
  LayerNames& names = config->names;
  names.post_attention_norm = {"blk.{}.post_attention_norm",
                               "model.layers.{}.post_attention_layernorm"};
  names.mlp_norm = {"blk.{}.ffn_norm", "model.layers.{}.pre_feedforward_layernorm"};
  names.post_mlp_norm = {"blk.{}.post_ffw_norm", "model.layers.{}.post_feedforward_layernorm"};

  const LayerSpec& first = config->layers[0];
  double scalar = static_cast<int>(config->layers.size()) == wide_layers
                      ? static_cast<double>(config->width) / first.heads
                      : first.head_size;
  if (!source.is_gguf()) {
    auto given = source.real_or({"", "query_pre_attn_scalar"}, first.head_size);
    if (!given) return given.status();
    scalar = *given;
    if (!(scalar > 0))
      return source.wrong({"", "query_pre_attn_scalar"}, fmt::format("{}", scalar), "> 0");
  }
  for (LayerSpec& layer : config->layers) {
    layer.activation = Activation::gelu_tanh;
    layer.query_scale = static_cast<float>(1 / std::sqrt(scalar));
  }
  return config;
}

}  // namespace quire::model
