#include "model/architectures/architectures.h"
#include "model/rope.h"

namespace quire::model {

// SmolLM3: llama without RoPE in every fourth layer (NoPE, arXiv 2501.18795).
Result<ModelConfig> configure_smollm3(const ConfigSource& source) {
  auto config = configure_common(source, "smollm3");
  if (!config) return config;
  config->permuted_qk = true;
  auto rope = read_rope(source, *config, config->layers[0].head_size);
  if (!rope) return rope.status();
  config->ropes.push_back(std::move(*rope));

  constexpr Key kLayers{"", "no_rope_layers"};  // 1 where a layer has RoPE, in spite of the name
  auto given = source.reals(kLayers);
  if (!given) return given.status();
  if (!given->empty() && given->size() != config->layers.size()) {
    return source.wrong(kLayers, std::to_string(given->size()) + " entries", "one a layer");
  }
  for (std::size_t i = 0; i < config->layers.size(); ++i) {
    const bool rotated = given->empty() ? (i + 1) % 4 != 0 : (*given)[i] != 0;
    config->layers[i].rope = rotated ? 0 : -1;
  }
  return config;
}

}  // namespace quire::model
