#include "model/mixture.h"

#include "base/error.h"

namespace quire::model {

constexpr std::int64_t kMostExperts = 1 << 18;  // of all layers; published models have 16,000

Status read_mixture(const ConfigSource& source, ModelConfig& config) {
  const Key experts_key = source.has({"", "num_local_experts"})
                              ? Key{"expert_count", "num_local_experts"}
                              : Key{"expert_count", "num_experts"};
  auto experts = source.integer_or(experts_key, 0, 4096, 0);
  if (!experts) return experts.status();
  if (*experts == 0) return {};
  auto used = source.integer({"expert_used_count", "num_experts_per_tok"}, 1, *experts);
  if (!used) return used.status();
  auto ff = source.integer_or({"expert_feed_forward_length", "moe_intermediate_size"}, 1,
                              kMaxDimension, config.layers[0].ff);
  if (!ff) return ff.status();
  const auto all = static_cast<std::int64_t>(config.layers.size()) * *experts;
  if (all > kMostExperts) {
    return error(StatusCode::malformed, "{}: {} layers of {} experts, wanted at most {} in all",
                 source.file(), config.layers.size(), *experts, kMostExperts);
  }
  for (LayerSpec& layer : config.layers) {
    layer.experts = static_cast<int>(*experts);
    layer.experts_used = static_cast<int>(*used);
    layer.ff = static_cast<int>(*ff);
  }
  return {};
}

}  // namespace quire::model
