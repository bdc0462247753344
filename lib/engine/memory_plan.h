#pragma once

#include <cstddef>
#include <vector>

#include <quire/engine.h>
#include <quire/engine_options.h>
#include <quire/status.h>

#include "device/device.h"
#include "format/model_files.h"
#include "model/decoder.h"
#include "model/model_config.h"

namespace quire {

// How the memory of an engine is divided: decided by arithmetic before anything big is allocated.
struct MemoryPlan {
  Estimate estimate;
  model::DecoderLimits limits;
  std::vector<std::size_t> page_bytes;  // of each KV group
};

// Checks the options against the model and each other, and divides the budgets. Errors name the
// option with both numbers. `owned_file_bytes`: of the file, held in memory of ours while loading.
Result<MemoryPlan> plan_memory(const format::ModelFiles& files, const model::ModelConfig& config,
                               const Device& device, const EngineOptions& options,
                               std::size_t owned_file_bytes);

}  // namespace quire
