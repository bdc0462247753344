#include "base/error.h"
#include "model/architectures/architectures.h"
#include "model/rope.h"

namespace quire::model {

// Granite 3: llama with multipliers on embedding, attention, residual and logits.
Result<ModelConfig> configure_granite(const ConfigSource& source) {
  auto config = configure_common(source, "granite");
  if (!config) return config;
  config->permuted_qk = true;
  auto embedding = source.real_or({"embedding_scale", "embedding_multiplier"}, 1);
  auto attention = source.real_or({"attention.scale", "attention_multiplier"}, 0);
  auto residual = source.real_or({"residual_scale", "residual_multiplier"}, 1);
  auto logits = source.real_or({"logit_scale", "logits_scaling"}, 1);
  for (const auto* value : {&embedding, &attention, &residual, &logits}) {
    if (!*value) return value->status();
  }
  if (*logits == 0) return source.wrong({"logit_scale", "logits_scaling"}, "0", "another number");
  config->embedding_scale = static_cast<float>(*embedding);
  config->residual_scale = static_cast<float>(*residual);
  config->logit_scale = static_cast<float>(1 / *logits);
  if (*attention != 0) {
    for (LayerSpec& layer : config->layers) layer.query_scale = static_cast<float>(*attention);
  }
  auto rope = read_rope(source, *config, config->layers[0].head_size);
  if (!rope) return rope.status();
  config->ropes.push_back(std::move(*rope));
  return config;
}

}  // namespace quire::model
