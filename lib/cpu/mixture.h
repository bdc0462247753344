#pragma once

#include <cstdint>

#include "cpu/cpu_device.h"
#include "cpu/row_phase.h"
#include "device/model_ops.h"

namespace quire::cpu {

// The mixture forms of mlp_input and mlp_output; arguments are already checked. Rows are grouped by
// expert; a row's experts are added in ascending order.
void route(CpuDevice& device, const MlpInputArgs& args, const Activations& normed);
void mixture_input(CpuDevice& device, const MlpInputArgs& args, const float* normed);
void mixture_output(CpuDevice& device, const MlpOutputArgs& args, float* sums);

// gate = activation(gate) * up
void activate(const RowKernels& kernels, Activation activation, float* gate, const float* up,
              int n);
// Both projections of one expert, or of a dense layer: gated = activation(gate x) * up x.
struct GatedProduct {
  const Linear& gate;
  const Linear& up;
  Activation activation = Activation::silu;
  int ff = 0;
  float* gated = nullptr;                 // [rows][ff]; null: only `prepared` is wanted
  const Activations* prepared = nullptr;  // the same prepared, or null
};
void gate_and_up(CpuDevice& device, const RowBlock& rows, const GatedProduct& product,
                 const ProductPart& part, int worker);

}  // namespace quire::cpu
