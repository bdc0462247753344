#include "model/architectures/architectures.h"
#include "model/mixture.h"
#include "model/rope.h"

namespace quire::model {

// gpt-oss (arXiv 2508.10925): attention sinks, biases, YaRN, clamped SwiGLU experts. GGUF only: the
// Hugging Face files hold the experts transposed and interleaved.
Result<ModelConfig> configure_gpt_oss(const ConfigSource& source) {
  auto config = configure_common(source, "gpt-oss");
  if (!config) return config;
  config->require_qkv_bias = true;
  LayerNames& names = config->names;
  names.mlp_norm.gguf = "blk.{}.post_attention_norm";
  if (Status status = read_mixture(source, *config); !status.ok()) return status;
  for (LayerSpec& layer : config->layers) {
    layer.sinks = true;
    layer.activation = Activation::swiglu_clamped;
  }
  auto window = source.integer({"attention.sliding_window", "sliding_window"}, 1, kMaxDimension);
  if (!window) return window.status();
  auto given = set_window_by_layer_types(source, *config, static_cast<int>(*window));
  if (!given) return given.status();
  if (!*given) {
    set_window(
        *config, static_cast<int>(*window), [](int i, int) { return i % 2 == 0; }, 0);
  }
  auto rope = read_rope(source, *config, config->layers[0].head_size);
  if (!rope) return rope.status();
  config->ropes.push_back(std::move(*rope));
  return config;
}

}  // namespace quire::model
