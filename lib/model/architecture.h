#pragma once

#include <span>
#include <string>
#include <string_view>

#include <quire/status.h>

#include "model/config_source.h"
#include "model/model_config.h"

namespace quire::model {

// One supported architecture: its names and the function that reads its settings.
struct Architecture {
  std::string_view gguf;  // general.architecture
  std::string_view hf;    // model_type; "" if only GGUF files have it
  Result<ModelConfig> (*configure)(const ConfigSource& source);
};

// All of them, each defined in architectures/<name>.cpp.
std::span<const Architecture> architectures();

// Reads and checks the settings of a model. An unknown architecture is `unsupported`, with the
// list.
Result<ModelConfig> configure(const format::ModelFiles& files);

// Parts that the architecture files share.

// Sizes that every decoder has: width, layers, heads, ff, context, epsilon, vocabulary; the default
// query scale 1 / sqrt(head_size); every layer alike, without window, RoPE table 0.
Result<ModelConfig> configure_common(const ConfigSource& source, std::string_view name);

// Window of the layers for which `local(layer)` is true.
void set_window(ModelConfig& config, int window, bool (*local)(int layer, int period), int period);
// Windows by config.json's "layer_types", if it has them: true in `given`.
Result<bool> set_window_by_layer_types(const ConfigSource& source, ModelConfig& config, int window);

}  // namespace quire::model
