#include "model/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.h"
#include "tensor/blocks.h"

namespace quire::model {
namespace {

// A setting of the scaling under both of config.json's spellings: rope_parameters (or its group)
// and rope_scaling.
class ScalingKeys {
 public:
  ScalingKeys(const ConfigSource& source, std::string_view group)
      : source_(source), group_(group) {}

  Result<std::string> type() const {
    if (source_.is_gguf()) return source_.string_or({"rope.scaling.type", ""}, "none");
    for (const char* name : {"rope_type", "type"}) {
      for (const std::string& group : {group_, std::string("rope_scaling")}) {
        const std::string path = group + "/" + name;
        if (source_.has({"", path})) return source_.string_or({"", path}, "default");
      }
    }
    return std::string("default");
  }
  Result<double> real(std::string_view gguf, std::string_view name, double absent) const {
    return source_.real_or(spelled(gguf, name), absent);
  }
  Result<bool> boolean(std::string_view name, bool absent) const {
    return source_.boolean_or(spelled("", name), absent);
  }
  Result<std::vector<double>> reals(std::string_view name) const {
    return source_.reals(spelled("", name));
  }
  bool has(std::string_view gguf, std::string_view name) const {
    return source_.has(spelled(gguf, name));
  }

 private:
  Key spelled(std::string_view gguf, std::string_view name) const {
    path_ = group_ + "/" + std::string(name);
    if (!source_.has({"", path_})) path_ = "rope_scaling/" + std::string(name);
    return {gguf, path_};
  }
  const ConfigSource& source_;
  std::string group_;
  mutable std::string path_;  // keeps the last Key's text alive
};

void divide(std::vector<float>& frequency, const std::vector<float>& factor) {
  for (std::size_t i = 0; i < frequency.size(); ++i) frequency[i] /= factor[i];
}

// Reads a float tensor of `n` divisors; nothing if the file does not have it.
Result<std::vector<float>> divisors(const ConfigSource& source, std::string_view name,
                                    std::size_t n) {
  const TensorView* tensor = source.files().find(name);
  if (!tensor) return std::vector<float>{};
  if (tensor->elements() != static_cast<std::int64_t>(n) || is_quantised(tensor->type)) {
    return error(StatusCode::malformed, "{}: tensor {}: has {} elements, wanted {} plain ones",
                 source.file(), name, tensor->elements(), n);
  }
  std::vector<float> values(n);
  dequantise(tensor->type, tensor->bytes.data(), tensor->elements(), values.data());
  for (float v : values) {
    if (!std::isfinite(v) || v <= 0) {
      return error(StatusCode::malformed, "{}: tensor {}: {} is no positive divisor", source.file(),
                   name, v);
    }
  }
  return values;
}

// Llama 3.1's scaling (transformers, modeling_rope_utils: _compute_llama3_parameters).
Status scale_llama3(const ScalingKeys& keys, RopeTable& table) {
  auto factor = keys.real("", "factor", 8);
  auto low = keys.real("", "low_freq_factor", 1);
  auto high = keys.real("", "high_freq_factor", 4);
  auto original = keys.real("", "original_max_position_embeddings", 8192);
  for (const auto* value : {&factor, &low, &high, &original}) {
    if (!*value) return value->status();
  }
  if (!(*factor > 0) || !(*low > 0) || !(*high > *low) || !(*original > 0)) {
    return error(StatusCode::malformed,
                 "config.json: llama3 rope scaling: factor {}, low {}, high {}, original length {}",
                 *factor, *low, *high, *original);
  }
  for (float& frequency : table.inverse_frequency) {
    const double wavelength = 2 * std::numbers::pi / frequency;
    if (wavelength > *original / *low) {
      frequency = static_cast<float>(frequency / *factor);
    } else if (wavelength >= *original / *high) {
      const double smooth = (*original / wavelength - *low) / (*high - *low);
      frequency = static_cast<float>((1 - smooth) * frequency / *factor + smooth * frequency);
    }
  }
  return {};
}

// YaRN (arXiv 2309.00071): interpolates slow frequencies, keeps fast ones, ramps between.
Status scale_yarn(const ConfigSource& source, const ScalingKeys& keys, double base,
                  RopeTable& table) {
  auto factor = keys.real("rope.scaling.factor", "factor", 1);
  auto original =
      keys.real("rope.scaling.original_context_length", "original_max_position_embeddings", 0);
  auto fast = keys.real("rope.scaling.yarn_beta_fast", "beta_fast", 32);
  auto slow = keys.real("rope.scaling.yarn_beta_slow", "beta_slow", 1);
  auto given = keys.real("rope.scaling.yarn_attn_factor", "attention_factor", 0);
  auto truncate = keys.boolean("truncate", true);
  for (const auto* value : {&factor, &original, &fast, &slow, &given}) {
    if (!*value) return value->status();
  }
  if (!truncate) return truncate.status();
  if (!(*factor >= 1) || !(*original > 0) || !(*fast > 0) || !(*slow > 0)) {
    return error(StatusCode::malformed,
                 "{}: yarn rope scaling: factor {}, original length {}, beta {} and {}",
                 source.file(), *factor, *original, *fast, *slow);
  }
  const double dimensions = table.dimensions();
  auto correction = [&](double rotations) {
    return dimensions * std::log(*original / (rotations * 2 * std::numbers::pi)) /
           (2 * std::log(base));
  };
  double low = correction(*fast), high = correction(*slow);
  if (*truncate) low = std::floor(low), high = std::ceil(high);
  low = std::max(low, 0.0);
  high = std::min(high, dimensions - 1);
  if (low == high) high += 0.001;
  for (std::size_t i = 0; i < table.inverse_frequency.size(); ++i) {
    const double ramp = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    const double plain = table.inverse_frequency[i];
    table.inverse_frequency[i] = static_cast<float>(plain / *factor * ramp + plain * (1 - ramp));
  }
  table.magnitude = static_cast<float>(*given > 0 ? *given : 0.1 * std::log(*factor) + 1);
  return {};
}

// LongRoPE (arXiv 2402.13753): two lists of divisors, chosen by the length of the sequence.
Status scale_longrope(const ConfigSource& source, const ModelConfig& config,
                      const ScalingKeys& keys, RopeTable& table) {
  const std::size_t n = table.inverse_frequency.size();
  std::vector<float> factors[2];  // short, long
  const char* gguf_names[2] = {"rope_factors_short.weight", "rope_factors_long.weight"};
  const char* hf_names[2] = {"short_factor", "long_factor"};
  for (int i = 0; i < 2; ++i) {
    if (source.is_gguf()) {
      auto values = divisors(source, gguf_names[i], n);
      if (!values) return values.status();
      factors[i] = *values;
    } else {
      auto values = keys.reals(hf_names[i]);
      if (!values) return values.status();
      factors[i].assign(values->begin(), values->end());
    }
    const bool positive =
        std::all_of(factors[i].begin(), factors[i].end(), [](float f) { return f > 0; });
    if (factors[i].size() != n || !positive) {
      return error(StatusCode::malformed, "{}: {}: {} factors, wanted {} positive ones",
                   source.file(), source.is_gguf() ? gguf_names[i] : hf_names[i], factors[i].size(),
                   n);
    }
  }
  table.long_inverse_frequency = table.inverse_frequency;
  divide(table.inverse_frequency, factors[0]);
  divide(table.long_inverse_frequency, factors[1]);
  auto attention = keys.real("rope.scaling.attn_factor", "attention_factor", 0);
  if (!attention) return attention.status();
  double magnitude = *attention;
  if (!(magnitude > 0)) {
    const double ratio = static_cast<double>(config.context) / std::max(1, config.original_context);
    magnitude = ratio <= 1 ? 1 : std::sqrt(1 + std::log(ratio) / std::log(config.original_context));
  }
  table.magnitude = table.long_magnitude = static_cast<float>(magnitude);
  return {};
}

}  // namespace

RopeTable plain_rope(int dimensions, double base) {
  RopeTable table;
  for (int i = 0; i < dimensions / 2; ++i) {
    table.inverse_frequency.push_back(1.0f /
                                      static_cast<float>(std::pow(base, 2.0 * i / dimensions)));
  }
  return table;
}

Result<double> read_rope_base(const ConfigSource& source, std::string_view hf_group,
                              double absent) {
  const std::string path = std::string(hf_group) + "/rope_theta";
  const Key key = source.is_gguf() || source.has({"", path}) ? Key{"rope.freq_base", path}
                                                             : Key{"rope.freq_base", "rope_theta"};
  auto base = source.real_or(key, absent);
  if (base && !(*base > 1)) return source.wrong(key, fmt::format("{}", *base), "a number above 1");
  return base;
}

Result<RopeTable> read_rope(const ConfigSource& source, const ModelConfig& config, int dimensions,
                            std::string_view hf_group) {
  auto base = read_rope_base(source, hf_group, 10000);
  if (!base) return base.status();
  RopeTable table = plain_rope(dimensions, *base);
  const ScalingKeys keys(source, hf_group);
  auto type = keys.type();
  if (!type) return type.status();

  Status status;
  if (*type == "longrope" || *type == "su" ||
      (source.is_gguf() && source.files().find("rope_factors_long.weight"))) {
    status = scale_longrope(source, config, keys, table);
  } else if (*type == "llama3") {
    status = scale_llama3(keys, table);
  } else if (*type == "yarn") {
    status = scale_yarn(source, keys, *base, table);
  } else if (*type == "linear") {
    auto factor = keys.real("rope.scaling.factor", "factor", 1);
    if (!factor) return factor.status();
    if (!(*factor > 0))
      return error(StatusCode::malformed, "{}: linear rope factor {}", source.file(), *factor);
    for (float& f : table.inverse_frequency) f = static_cast<float>(f / *factor);
  } else if (*type != "default" && *type != "none") {
    status =
        error(StatusCode::unsupported,
              "{}: rope scaling type \"{}\" is not known; known are default, none, linear, llama3, "
              "longrope, yarn",
              source.file(), *type);
  }
  if (!status.ok()) return status;

  if (source.is_gguf()) {
    auto factors = divisors(source, "rope_freqs.weight", table.inverse_frequency.size());
    if (!factors) return factors.status();
    if (!factors->empty()) divide(table.inverse_frequency, *factors);
  }
  return table;
}

}  // namespace quire::model
