#include "model/architectures/architectures.h"

namespace quire::model {

// Mistral 7B (arXiv 2310.06825): llama with a window in every layer, where config.json gives one.
Result<ModelConfig> configure_mistral(const ConfigSource& source) {
  auto config = configure_llama(source);
  if (!config) return config;
  auto window = source.integer_or({"", "sliding_window"}, 1, kMaxDimension, 0);
  if (!window) return window.status();
  set_window(
      *config, static_cast<int>(*window), [](int, int) { return true; }, 0);
  return config;
}

}  // namespace quire::model
