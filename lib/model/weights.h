#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include <quire/status.h>

#include "device/device.h"
#include "format/model_files.h"
#include "model/model_config.h"

namespace quire::model {

// The weights of one layer; absent ones are null. Shapes as in the argument structs of model_ops.h.
struct LayerWeights {
  const float* attention_norm = nullptr;       // [width]
  const float* post_attention_norm = nullptr;  // [width]
  const float* mlp_norm = nullptr;             // [width]
  const float* post_mlp_norm = nullptr;        // [width]
  const float* q_norm = nullptr;               // [head_size], or [heads * head_size]
  const float* k_norm = nullptr;
  const float* sinks = nullptr;  // [heads]
  Linear q, k, v, o;
  Linear gate, up, down;
  Linear router;
  std::vector<Linear> expert_gate, expert_up, expert_down;  // [experts]
  MlpSpec mlp;                                              // points to the Linears above
};

// A model on its device. Not movable: parts of it point to each other.
struct Model {
  ModelConfig config;
  std::vector<LayerWeights> layers;
  Linear embedding;              // [vocabulary][width], packed with `gather`
  Linear own_head;               // [vocabulary][width]; no weight if the head is tied
  const Linear* head = nullptr;  // own_head, or the embedding
  const float* final_norm = nullptr;
  std::vector<std::unique_ptr<DeviceBuffer>> vectors;  // norms, biases, sinks

  std::size_t bytes() const;  // memory held

  Model() = default;
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;
};

// Finds and checks every weight of the model against `config`, then packs them. `keep_pages`: leave
// the file's pages resident (weights are multiplied in place). `progress` gets 0 ... 1 and stops
// the load by returning false.
Result<std::unique_ptr<Model>> load_model(const format::ModelFiles& files, ModelConfig config,
                                          Device& device, bool keep_pages,
                                          const std::function<bool(double)>& progress);

struct WeightBytes {
  std::size_t resident = 0;      // after loading
  std::size_t largest_item = 0;  // the most that is held twice while loading: one stored tensor
};

// What load_model would hold, from the file's header and the device's own arithmetic.
Result<WeightBytes> weight_bytes(const format::ModelFiles& files, const ModelConfig& config,
                                 const Device& device);

}  // namespace quire::model
