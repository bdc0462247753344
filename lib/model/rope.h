#pragma once

#include <quire/status.h>

#include "model/config_source.h"
#include "model/model_config.h"

namespace quire::model {

// Inverse frequencies base^(-2i / dimensions) without scaling (RoFormer, arXiv 2104.09864).
RopeTable plain_rope(int dimensions, double base);

// The table of a model from its settings: none, linear, llama3, longrope or yarn scaling, from
// rope_parameters / rope_scaling of config.json, or the keys and tensors of a GGUF (rope_freqs,
// rope_factors_long, rope_factors_short). `hf_group` is "rope_parameters" or a member of it
// ("rope_parameters/full_attention"). An unknown scaling type is an error, never ignored.
Result<RopeTable> read_rope(const ConfigSource& source, const ModelConfig& config, int dimensions,
                            std::string_view hf_group = "rope_parameters");

// Base frequency under all its spellings.
Result<double> read_rope_base(const ConfigSource& source, std::string_view hf_group, double absent);

}  // namespace quire::model
