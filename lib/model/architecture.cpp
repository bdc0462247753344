#include "model/architecture.h"

#include <cmath>

#include "base/error.h"

namespace quire::model {
namespace {

struct CommonSizes {
  std::int64_t layers, width, ff, context, heads;
};

Result<CommonSizes> read_sizes(const ConfigSource& source) {
  CommonSizes sizes{};
  const struct {
    Key key;
    std::int64_t high;
    std::int64_t* to;
  } fields[] = {
      {{"block_count", "num_hidden_layers"}, 4096, &sizes.layers},
      {{"embedding_length", "hidden_size"}, kMaxDimension, &sizes.width},
      {{"feed_forward_length", "intermediate_size"}, kMaxDimension, &sizes.ff},
      {{"context_length", "max_position_embeddings"}, kMaxDimension * 8, &sizes.context},
      {{"attention.head_count", "num_attention_heads"}, 65536, &sizes.heads},
  };
  for (const auto& field : fields) {
    auto value = source.integer(field.key, 1, field.high);
    if (!value) return value.status();
    *field.to = *value;
  }
  return sizes;
}

// Rows of the embedding table; not fewer than the tokenizer has tokens.
Result<std::int64_t> read_vocabulary(const ConfigSource& source, const ModelConfig& config) {
  const std::string name =
      std::string(source.is_gguf() ? config.embedding.gguf : config.embedding.hf) + ".weight";
  const TensorView* table = source.files().find(name);
  if (const std::string* why = source.files().unreadable(name)) {
    return error(StatusCode::unsupported, "{}: tensor {}: {}", source.file(), name, *why);
  }
  if (!table) return error(StatusCode::malformed, "{}: tensor {} is missing", source.file(), name);
  const std::int64_t rows = table->rows();
  if (source.is_gguf()) {
    auto tokens = source.files().gguf()->strings("tokenizer.ggml.tokens");
    if (!tokens) return tokens.status();
    if (static_cast<std::int64_t>(tokens->size()) > rows) {
      return error(StatusCode::malformed, "{}: tensor {}: has {} rows, the vocabulary {} tokens",
                   source.file(), name, rows, tokens->size());
    }
  } else {
    auto vocabulary = source.integer({"", "vocab_size"}, 1, kMaxDimension);
    if (!vocabulary) return vocabulary.status();
    if (*vocabulary != rows) {
      return error(StatusCode::malformed,
                   "{}: tensor {}: has {} rows, config.json says vocab_size {}", source.file(),
                   name, rows, *vocabulary);
    }
  }
  if (rows < 1 || rows > kMaxDimension) {
    return error(StatusCode::malformed, "{}: tensor {}: {} rows, wanted 1 to {}", source.file(),
                 name, rows, kMaxDimension);
  }
  return rows;
}

}  // namespace

Result<ModelConfig> configure_common(const ConfigSource& source, std::string_view name) {
  ModelConfig config;
  config.architecture = std::string(name);
  auto sizes = read_sizes(source);
  if (!sizes) return sizes.status();
  config.width = static_cast<int>(sizes->width);
  config.context = static_cast<int>(sizes->context);

  auto epsilon = source.real_or({"attention.layer_norm_rms_epsilon", "rms_norm_eps"}, 1e-6);
  if (!epsilon) return epsilon.status();
  config.epsilon = static_cast<float>(*epsilon);

  constexpr Key kKvHeads{"attention.head_count_kv", "num_key_value_heads"};
  auto kv_heads = source.has(kKvHeads) ? source.per_layer(kKvHeads, 1, 65536, sizes->layers)
                                       : std::vector<std::int64_t>(sizes->layers, sizes->heads);
  if (!kv_heads) return kv_heads.status();
  auto head_size =
      source.integer_or({"attention.key_length", "head_dim"}, 1, 4096, sizes->width / sizes->heads);
  if (!head_size) return head_size.status();
  auto value_size = source.integer_or({"attention.value_length", ""}, 1, 4096, *head_size);
  if (!value_size) return value_size.status();
  if (*value_size != *head_size || *head_size % 2 != 0 || *head_size < 2) {
    return error(StatusCode::unsupported,
                 "{}: head sizes {} (keys) and {} (values): wanted equal even numbers",
                 source.file(), *head_size, *value_size);
  }
  LayerSpec layer;
  layer.heads = static_cast<int>(sizes->heads);
  layer.head_size = static_cast<int>(*head_size);
  layer.query_scale = 1 / std::sqrt(static_cast<float>(*head_size));
  layer.ff = static_cast<int>(sizes->ff);
  for (std::int64_t i = 0; i < sizes->layers; ++i) {
    layer.kv_heads = static_cast<int>((*kv_heads)[i]);
    if (layer.heads % layer.kv_heads != 0) {
      return error(StatusCode::malformed, "{}: layer {}: {} heads are no multiple of {} KV heads",
                   source.file(), i, layer.heads, layer.kv_heads);
    }
    config.layers.push_back(layer);
  }
  auto vocabulary = read_vocabulary(source, config);
  if (!vocabulary) return vocabulary.status();
  config.vocabulary = static_cast<int>(*vocabulary);
  return config;
}

void set_window(ModelConfig& config, int window, bool (*local)(int layer, int period), int period) {
  for (std::size_t i = 0; i < config.layers.size(); ++i) {
    config.layers[i].window = local(static_cast<int>(i), period) ? window : 0;
  }
}

Result<bool> set_window_by_layer_types(const ConfigSource& source, ModelConfig& config,
                                       int window) {
  constexpr Key kTypes{"", "layer_types"};
  auto types = source.strings(kTypes);
  if (!types) return types.status();
  if (types->empty()) return false;
  if (types->size() != config.layers.size()) {
    return source.wrong(kTypes, fmt::format("{} entries", types->size()),
                        fmt::format("{}, one a layer", config.layers.size()));
  }
  for (std::size_t i = 0; i < types->size(); ++i) {
    const std::string& type = (*types)[i];
    if (type != "sliding_attention" && type != "full_attention") {
      return error(StatusCode::unsupported,
                   "{}: config.json: layer_types: \"{}\" is not known; known are full_attention, "
                   "sliding_attention",
                   source.file(), type);
    }
    config.layers[i].window = type == "sliding_attention" ? window : 0;
  }
  return true;
}

namespace {

// Puts the layers into KV groups: those with the same window, heads and head size share one.
void group_layers(ModelConfig& config) {
  for (LayerSpec& layer : config.layers) {
    std::size_t g = 0;
    for (; g < config.kv_groups.size(); ++g) {
      const KvGroupSpec& group = config.kv_groups[g];
      if (group.window == layer.window && group.kv_heads == layer.kv_heads &&
          group.head_size == layer.head_size) {
        break;
      }
    }
    if (g == config.kv_groups.size()) {
      config.kv_groups.push_back({0, layer.kv_heads, layer.head_size, layer.window});
    }
    layer.kv_group = static_cast<int>(g);
    layer.kv_layer = config.kv_groups[g].layers++;
  }
}

}  // namespace

Result<ModelConfig> configure(const format::ModelFiles& files) {
  const ConfigSource source(files);
  auto name = source.architecture();
  if (!name) return name.status();
  std::string known;
  for (const Architecture& entry : architectures()) {
    const std::string_view own = source.is_gguf() ? entry.gguf : entry.hf;
    if (own.empty()) continue;
    if (own == *name) {
      auto config = entry.configure(source);
      if (!config) return config;
      config->permuted_qk = config->permuted_qk && source.is_gguf();
      if (source.is_gguf()) config->norm_offset = 0;
      group_layers(*config);
      return config;
    }
    known += (known.empty() ? "" : ", ") + std::string(own);
  }
  return error(StatusCode::unsupported,
               "{}: architecture \"{}\" is not supported; supported are {}", files.name(), *name,
               known);
}

}  // namespace quire::model
