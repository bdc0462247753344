#pragma once

#include <string_view>

#include <quire/status.h>

#include "model/config_source.h"
#include "model/model_config.h"

namespace quire::model {

// What Gemma 2 and 3 share: embedding x sqrt(width), GELU, four norms a layer with 1 added to their
// weights, and the scale of queries. GGUF files have no key for that scale: it is 1 / sqrt(head
// size), but 1 / sqrt(width / heads) for the size with `wide_layers` layers (the 27B ones).
Result<ModelConfig> configure_gemma_common(const ConfigSource& source, std::string_view name,
                                           int wide_layers);

}  // namespace quire::model
