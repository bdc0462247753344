#include "model/weight_plan.h"

#include <string_view>

#include "base/error.h"

namespace quire::model {
namespace {

std::string with_number(std::string_view pattern, int number) {
  const std::size_t at = pattern.find("{}");
  if (at == std::string_view::npos) return std::string(pattern);
  return fmt::format("{}{}{}", pattern.substr(0, at), number, pattern.substr(at + 2));
}

class Planner {
 public:
  Planner(const format::ModelFiles& files, Model& model)
      : files_(files), model_(model), config_(model.config), gguf_(files.gguf() != nullptr) {}

  Result<WeightPlan> run() {
    model_.layers.resize(config_.layers.size());
    plan_ends();
    for (std::size_t i = 0; i < model_.layers.size() && status_.ok(); ++i) {
      layer_ = static_cast<int>(i);
      plan_attention(config_.layers[i], model_.layers[i]);
      plan_mlp(config_.layers[i], model_.layers[i]);
    }
    if (!status_.ok()) return status_;
    return std::move(plan_);
  }

 private:
  std::string_view pick(const TensorName& name) const { return gguf_ ? name.gguf : name.hf; }

  void fail(Status status) {
    if (status_.ok()) status_ = std::move(status);
  }

  // A tensor with that many rows (0: a vector) and columns, or null with the status set.
  const TensorView* find(const std::string& name, std::int64_t rows, std::int64_t columns) {
    const TensorView* tensor = files_.find(name);
    if (!tensor) {
      const std::string* why = files_.unreadable(name);
      fail(why ? error(StatusCode::unsupported, "{}: tensor {}: {}", files_.name(), name, *why)
               : error(StatusCode::malformed, "{}: tensor {} is missing", files_.name(), name));
      return nullptr;
    }
    const std::int64_t own_rows = tensor->dimensions < 2 ? 0 : tensor->rows();
    if (own_rows != rows || tensor->columns() != columns) {
      fail(error(StatusCode::malformed, "{}: tensor {}: has shape [{}, {}], wanted [{}, {}]",
                 files_.name(), name, own_rows, tensor->columns(), rows, columns));
      return nullptr;
    }
    return tensor;
  }

  void vector(const std::string& name, std::int64_t size, const float** to, float offset = 0,
              int unpermute_heads = 0) {
    const TensorView* tensor = find(name, 0, size);
    if (!tensor) return;
    if (is_quantised(tensor->type)) {
      return fail(error(StatusCode::unsupported, "{}: tensor {}: a vector of type {}",
                        files_.name(), name, info(tensor->type).name));
    }
    plan_.vectors.push_back({to, *tensor, offset, unpermute_heads});
  }

  void norm(const TensorName& name, std::int64_t size, const float** to) {
    if (pick(name).empty()) return;
    vector(with_number(pick(name), layer_) + ".weight", size, to, config_.norm_offset);
  }

  // A matrix and, if it is stored, its bias.
  void linear(const std::string& base, std::int64_t rows, std::int64_t columns, Linear* to,
              PackSpec spec = {}, bool require_bias = false) {
    const TensorView* tensor = find(base + ".weight", rows, columns);
    if (!tensor) return;
    plan_.matrices.push_back({to, *tensor, spec});
    if (require_bias || files_.has(base + ".bias")) {
      vector(base + ".bias", rows, &to->bias, 0, spec.unpermute_heads);
    }
  }

  // Consecutive rows of one stored matrix, each part a Linear of its own.
  void fused(const std::string& base, std::int64_t columns,
             std::initializer_list<std::pair<Linear*, std::int64_t>> parts) {
    std::int64_t rows = 0;
    for (const auto& part : parts) rows += part.second;
    const TensorView* tensor = find(base + ".weight", rows, columns);
    if (!tensor) return;
    std::int64_t first = 0;
    for (const auto& [to, count] : parts) {
      plan_.matrices.push_back({to, tensor->row_range(first, count), {}});
      first += count;
    }
    if (files_.has(base + ".bias")) {
      fail(error(StatusCode::unsupported, "{}: tensor {}.bias: a bias on a fused projection",
                 files_.name(), base));
    }
  }

  void plan_ends() {
    PackSpec gather;
    gather.gather = true;
    linear(std::string(pick(config_.embedding)), config_.vocabulary, config_.width,
           &model_.embedding, gather);
    vector(std::string(pick(config_.final_norm)) + ".weight", config_.width, &model_.final_norm,
           config_.norm_offset);
    const std::string head(pick(config_.head));
    const bool tied_by_config = !gguf_ && files_.config()->find("tie_word_embeddings") &&
                                files_.config()->find("tie_word_embeddings")->boolean() &&
                                *files_.config()->find("tie_word_embeddings")->boolean();
    if (files_.has(head + ".weight") && !tied_by_config) {
      linear(head, config_.vocabulary, config_.width, &model_.own_head);
      model_.head = &model_.own_head;
    } else {
      model_.head = &model_.embedding;
    }
  }

  void plan_attention(const LayerSpec& spec, LayerWeights& to) {
    const LayerNames& names = config_.names;
    const std::int64_t width = config_.width;
    const std::int64_t q_rows = std::int64_t{spec.heads} * spec.head_size;
    const std::int64_t kv_rows = std::int64_t{spec.kv_heads} * spec.head_size;
    auto name = [&](const TensorName& n) { return with_number(pick(n), layer_); };

    norm(names.attention_norm, width, &to.attention_norm);
    if (!pick(names.qkv).empty()) {
      fused(name(names.qkv), width, {{&to.q, q_rows}, {&to.k, kv_rows}, {&to.v, kv_rows}});
    } else {
      PackSpec q_spec, k_spec;
      if (config_.permuted_qk)
        q_spec.unpermute_heads = spec.heads, k_spec.unpermute_heads = spec.kv_heads;
      linear(name(names.q), q_rows, width, &to.q, q_spec, config_.require_qkv_bias);
      linear(name(names.k), kv_rows, width, &to.k, k_spec, config_.require_qkv_bias);
      linear(name(names.v), kv_rows, width, &to.v, {}, config_.require_qkv_bias);
    }
    if (spec.qk_norm != QkNorm::none) {
      const bool whole = spec.qk_norm == QkNorm::whole;
      norm(names.q_norm, whole ? q_rows : spec.head_size, &to.q_norm);
      norm(names.k_norm, whole ? kv_rows : spec.head_size, &to.k_norm);
    }
    if (spec.sinks) vector(name(names.sinks), spec.heads, &to.sinks);
    linear(name(names.o), width, q_rows, &to.o);
    norm(names.post_attention_norm, width, &to.post_attention_norm);
  }

  void plan_mlp(const LayerSpec& spec, LayerWeights& to) {
    const LayerNames& names = config_.names;
    auto name = [&](const TensorName& n) { return with_number(pick(n), layer_); };
    norm(names.mlp_norm, config_.width, &to.mlp_norm);
    norm(names.post_mlp_norm, config_.width, &to.post_mlp_norm);
    to.mlp.ff = spec.ff;
    to.mlp.activation = spec.activation;
    if (spec.experts > 0) return plan_experts(spec, to);
    if (!pick(names.gate_up).empty()) {
      fused(name(names.gate_up), config_.width, {{&to.gate, spec.ff}, {&to.up, spec.ff}});
    } else {
      linear(name(names.gate), spec.ff, config_.width, &to.gate);
      linear(name(names.up), spec.ff, config_.width, &to.up);
    }
    linear(name(names.down), config_.width, spec.ff, &to.down);
    to.mlp.gate = &to.gate;
    to.mlp.up = &to.up;
    to.mlp.down = &to.down;
  }

  void plan_experts(const LayerSpec& spec, LayerWeights& to) {
    const LayerNames& names = config_.names;
    linear(with_number(pick(names.router), layer_), spec.experts, config_.width, &to.router);
    const struct {
      const TensorName* name;
      std::vector<Linear>* to;
      std::int64_t rows, columns;
    } parts[] = {{&names.expert_gate, &to.expert_gate, spec.ff, config_.width},
                 {&names.expert_up, &to.expert_up, spec.ff, config_.width},
                 {&names.expert_down, &to.expert_down, config_.width, spec.ff}};
    for (const auto& part : parts) {
      part.to->resize(static_cast<std::size_t>(spec.experts));
      const std::string base = with_number(pick(*part.name), layer_);
      if (gguf_) {
        stacked(base, part.rows, part.columns, *part.to);
      } else {
        for (int e = 0; e < spec.experts; ++e) {
          linear(with_number(base, e), part.rows, part.columns, &(*part.to)[e]);
        }
      }
    }
    to.mlp.mixture = {spec.experts,         spec.experts_used,     spec.renormalise_experts,
                      &to.router,           to.expert_gate.data(), to.expert_up.data(),
                      to.expert_down.data()};
  }

  // GGUF's stacked experts: [experts][rows][columns], their biases [experts][rows].
  void stacked(const std::string& base, std::int64_t rows, std::int64_t columns,
               std::vector<Linear>& to) {
    const auto experts = static_cast<std::int64_t>(to.size());
    const TensorView* tensor = find(base + ".weight", experts * rows, columns);
    const TensorView* bias =
        files_.has(base + ".bias") ? find(base + ".bias", experts, rows) : nullptr;
    if (!tensor || !status_.ok()) return;
    for (std::int64_t e = 0; e < experts; ++e) {
      plan_.matrices.push_back({&to[e], tensor->row_range(e * rows, rows), {}});
      if (bias) plan_.vectors.push_back({&to[e].bias, bias->row_range(e, 1), 0, 0});
    }
  }

  const format::ModelFiles& files_;
  Model& model_;
  const ModelConfig& config_;
  const bool gguf_;
  int layer_ = 0;
  WeightPlan plan_;
  Status status_;
};

}  // namespace

Result<WeightPlan> plan_weights(const format::ModelFiles& files, Model& model) {
  return Planner(files, model).run();
}

}  // namespace quire::model
