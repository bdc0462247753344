#include "model/architectures/architectures.h"
#include "model/rope.h"

namespace quire::model {

// OLMo 2 (arXiv 2501.00656): norms after attention and MLP only; Q and K normalised as a whole.
Result<ModelConfig> configure_olmo2(const ConfigSource& source) {
  auto config = configure_common(source, "olmo2");
  if (!config) return config;
  LayerNames& names = config->names;
  names.attention_norm = {};
  names.mlp_norm = {};
  names.post_attention_norm = {"blk.{}.post_attention_norm",
                               "model.layers.{}.post_attention_layernorm"};
  names.post_mlp_norm = {"blk.{}.post_ffw_norm", "model.layers.{}.post_feedforward_layernorm"};
  for (LayerSpec& layer : config->layers) layer.qk_norm = QkNorm::whole;
  auto rope = read_rope(source, *config, config->layers[0].head_size);
  if (!rope) return rope.status();
  config->ropes.push_back(std::move(*rope));
  return config;
}

}  // namespace quire::model
