#pragma once

#include <quire/status.h>

#include "model/architecture.h"

namespace quire::model {

// One function a file of this folder; see Architecture::configure.
Result<ModelConfig> configure_llama(const ConfigSource& source);
Result<ModelConfig> configure_mistral(const ConfigSource& source);
Result<ModelConfig> configure_mixtral(const ConfigSource& source);
Result<ModelConfig> configure_qwen2(const ConfigSource& source);
Result<ModelConfig> configure_qwen3(const ConfigSource& source);
Result<ModelConfig> configure_qwen3_moe(const ConfigSource& source);
Result<ModelConfig> configure_gemma2(const ConfigSource& source);
Result<ModelConfig> configure_gemma3(const ConfigSource& source);
Result<ModelConfig> configure_phi3(const ConfigSource& source);
Result<ModelConfig> configure_smollm3(const ConfigSource& source);
Result<ModelConfig> configure_granite(const ConfigSource& source);
Result<ModelConfig> configure_olmo2(const ConfigSource& source);
Result<ModelConfig> configure_gpt_oss(const ConfigSource& source);

}  // namespace quire::model
