#include "model/architectures/architectures.h"
#include "model/rope.h"

namespace quire::model {

// Qwen2 and Qwen2.5 (arXiv 2407.10671): llama with biases on Q, K and V.
Result<ModelConfig> configure_qwen2(const ConfigSource& source) {
  auto config = configure_common(source, "qwen2");
  if (!config) return config;
  config->require_qkv_bias = true;
  auto rope = read_rope(source, *config, config->layers[0].head_size);
  if (!rope) return rope.status();
  config->ropes.push_back(std::move(*rope));
  // "use_sliding_window" is off in every published checkpoint; its windows start at a given layer.
  auto windows = source.boolean_or({"", "use_sliding_window"}, false);
  if (!windows) return windows.status();
  if (*windows) {
    auto window = source.integer({"", "sliding_window"}, 1, kMaxDimension);
    auto first = source.integer_or({"", "max_window_layers"}, 0, 4096, 28);
    if (!window) return window.status();
    if (!first) return first.status();
    set_window(
        *config, static_cast<int>(*window), [](int i, int from) { return i >= from; },
        static_cast<int>(*first));
  }
  return config;
}

}  // namespace quire::model
