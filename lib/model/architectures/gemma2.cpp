#include <cmath>

#include "model/architectures/architectures.h"
#include "model/gemma.h"
#include "model/rope.h"

namespace quire::model {

// Gemma 2 (arXiv 2408.00118): windows in every other layer, soft caps, four norms a layer.
Result<ModelConfig> configure_gemma2(const ConfigSource& source) {
  auto config = configure_gemma_common(source, "gemma2", 46);
  if (!config) return config;
  auto attention_cap = source.real_or({"attn_logit_softcapping", "attn_logit_softcapping"},
                                      source.is_gguf() ? 50 : 0);
  auto final_cap = source.real_or({"final_logit_softcapping", "final_logit_softcapping"},
                                  source.is_gguf() ? 30 : 0);
  auto window =
      source.integer_or({"attention.sliding_window", "sliding_window"}, 1, kMaxDimension, 4096);
  if (!attention_cap) return attention_cap.status();
  if (!final_cap) return final_cap.status();
  if (!window) return window.status();
  for (LayerSpec& layer : config->layers)
    layer.attention_soft_cap = static_cast<float>(*attention_cap);
  config->logit_soft_cap = static_cast<float>(*final_cap);

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
