#include "model/architectures/architectures.h"
#include "model/rope.h"

namespace quire::model {

// Qwen3 (arXiv 2505.09388): a norm on each head of Q and K before RoPE, no biases.
Result<ModelConfig> configure_qwen3(const ConfigSource& source) {
  auto config = configure_common(source, "qwen3");
  if (!config) return config;
  for (LayerSpec& layer : config->layers) layer.qk_norm = QkNorm::per_head;
  auto rope = read_rope(source, *config, config->layers[0].head_size);
  if (!rope) return rope.status();
  config->ropes.push_back(std::move(*rope));
  return config;
}

}  // namespace quire::model
