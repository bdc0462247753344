#include "model/architectures/architectures.h"
#include "model/mixture.h"

namespace quire::model {

// The mixtures of Qwen3: their router's weights are a softmax over all experts, renormalised or
// not.
Result<ModelConfig> configure_qwen3_moe(const ConfigSource& source) {
  auto config = configure_qwen3(source);
  if (!config) return config;
  if (Status status = read_mixture(source, *config); !status.ok()) return status;
  auto renormalise = source.boolean_or({"", "norm_topk_prob"}, true);
  if (!renormalise) return renormalise.status();
  for (LayerSpec& layer : config->layers) layer.renormalise_experts = *renormalise;
  return config;
}

}  // namespace quire::model
