#pragma once

#include <string>
#include <vector>

#include <quire/status.h>

#include "device/packed_matrix.h"
#include "format/model_files.h"
#include "model/model_config.h"
#include "model/weights.h"

namespace quire::model {

// A stored matrix and the Linear that it becomes.
struct MatrixItem {
  Linear* to = nullptr;
  TensorView stored;
  PackSpec spec;
};

// A stored vector and the pointer that will lead to it.
struct VectorItem {
  const float** to = nullptr;
  TensorView stored;
  float offset = 0;         // added to each element
  int unpermute_heads = 0;  // as in PackSpec
};

// Every weight of a model, found in its files and checked: types, shapes, presence.
struct WeightPlan {
  std::vector<MatrixItem> matrices;
  std::vector<VectorItem> vectors;
};

// Fills in everything of `model` (whose config is set) but the weights themselves. Errors name the
// tensor with both shapes.
Result<WeightPlan> plan_weights(const format::ModelFiles& files, Model& model);

}  // namespace quire::model
