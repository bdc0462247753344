#pragma once

#include <quire/status.h>

#include "model/config_source.h"
#include "model/model_config.h"

namespace quire::model {

// Number of experts and how many are used, if the model has any; sets them in every layer.
Status read_mixture(const ConfigSource& source, ModelConfig& config);

}  // namespace quire::model
