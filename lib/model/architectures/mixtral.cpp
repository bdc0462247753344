#include "model/architectures/architectures.h"

namespace quire::model {

// Mixtral (arXiv 2401.04088): mistral with experts, under its own Hugging Face names.
Result<ModelConfig> configure_mixtral(const ConfigSource& source) {
  auto config = configure_mistral(source);
  if (!config) return config;
  config->names.router.hf = "model.layers.{}.block_sparse_moe.gate";
  config->names.expert_gate.hf = "model.layers.{}.block_sparse_moe.experts.{}.w1";
  config->names.expert_up.hf = "model.layers.{}.block_sparse_moe.experts.{}.w3";
  config->names.expert_down.hf = "model.layers.{}.block_sparse_moe.experts.{}.w2";
  return config;
}

}  // namespace quire::model
