#include "model/architectures/architectures.h"
#include "model/mixture.h"
#include "model/rope.h"

namespace quire::model {

// Llama 2 and 3.x (arXiv 2302.13971, 2407.21783), SmolLM2; as GGUF also Mistral and Mixtral.
Result<ModelConfig> configure_llama(const ConfigSource& source) {
  auto config = configure_common(source, "llama");
  if (!config) return config;
  config->permuted_qk = true;
  const int head_size = config->layers[0].head_size;
  auto dimensions = source.integer_or({"rope.dimension_count", ""}, 2, head_size, head_size);
  if (!dimensions) return dimensions.status();
  auto rope = read_rope(source, *config, static_cast<int>(*dimensions));
  if (!rope) return rope.status();
  config->ropes.push_back(std::move(*rope));
  if (Status status = read_mixture(source, *config); !status.ok()) return status;
  return config;
}

}  // namespace quire::model
