#include "model/architectures/architectures.h"
#include "model/gemma.h"
#include "model/rope.h"

namespace quire::model {

// Gemma 3 (arXiv 2503.19786): five layers with a window and an own RoPE base, then one without.
Result<ModelConfig> configure_gemma3(const ConfigSource& source) {
  auto config = configure_gemma_common(source, "gemma3", 62);
  if (!config) return config;
  for (LayerSpec& layer : config->layers) layer.qk_norm = QkNorm::per_head;
  auto window =
      source.integer_or({"attention.sliding_window", "sliding_window"}, 1, kMaxDimension, 1024);
  if (!window) return window.status();
  auto given = set_window_by_layer_types(source, *config, static_cast<int>(*window));
  if (!given) return given.status();
  if (!*given) {
    const Key period_key = source.has({"", "_sliding_window_pattern"})
                               ? Key{"", "_sliding_window_pattern"}
                               : Key{"attention.sliding_window_pattern", "sliding_window_pattern"};
    auto period = source.integer_or(period_key, 1, 4096, 6);
    if (!period) return period.status();
    set_window(
        *config, static_cast<int>(*window), [](int i, int p) { return (i + 1) % p != 0; },
        static_cast<int>(*period));
  }

  const bool grouped = source.has({"", "rope_parameters/full_attention"});
  auto global = read_rope(source, *config, config->layers[0].head_size,
                          grouped ? "rope_parameters/full_attention" : "rope_parameters");
  if (!global) return global.status();
  auto local_base =
      source.real_or({"rope.freq_base_swa", "rope_parameters/sliding_attention/rope_theta"}, 0);
  if (!local_base) return local_base.status();
  if (*local_base == 0) local_base = source.real_or({"", "rope_local_base_freq"}, 10000);
  if (!local_base) return local_base.status();
  if (!(*local_base > 1)) {
    return source.wrong({"rope.freq_base_swa", "rope_local_base_freq"}, std::to_string(*local_base),
                        "a number above 1");
  }
  config->ropes.push_back(std::move(*global));
  config->ropes.push_back(plain_rope(config->layers[0].head_size, *local_base));
  for (LayerSpec& layer : config->layers) layer.rope = layer.window > 0 ? 1 : 0;
  return config;
}

}  // namespace quire::model
