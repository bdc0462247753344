#include "cpu/mixture.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "cpu/phase.h"
#include "cpu/row_phase.h"

namespace quire::cpu {
namespace {

// Places (row * top_k + slot) that one expert works on, at most kExpertRows at a time.
struct ExpertRows {
  std::int64_t places[kExpertRows];
  int count = 0;
};

// The next places of `expert` from `next` on; advances `next`.
ExpertRows collect(const std::int32_t* chosen, std::int64_t places, int expert, int rows,
                   std::int64_t& next) {
  const int most = std::min(rows, kExpertRows);
  ExpertRows found;
  for (; next < places && found.count < most; ++next) {
    if (chosen[next] == expert) found.places[found.count++] = next;
  }
  return found;
}

void copy_row(const float* from, int width, float* to) {
  std::memcpy(to, from, sizeof(float) * static_cast<std::size_t>(width));
}

float logit_of(const float* logits, int expert) {
  const float value = logits[expert];
  return value == value ? value : -std::numeric_limits<float>::infinity();
}

// The best expert behind `before` in the order (higher logit, then lower index); -1: the first one.
int next_best(const float* logits, int experts, int before) {
  int best = -1;
  for (int e = 0; e < experts; ++e) {
    const float value = logit_of(logits, e);
    if (before >= 0) {
      const float bound = logit_of(logits, before);
      if (value > bound || (value == bound && e <= before)) continue;
    }
    if (best < 0 || value > logit_of(logits, best)) best = e;
  }
  return best;
}

void choose(const MixtureSpec& mixture, const float* logits, std::int32_t* chosen, float* weights) {
  int expert = -1;
  for (int slot = 0; slot < mixture.top_k; ++slot) {
    expert = next_best(logits, mixture.experts, expert);
    chosen[slot] = expert;
  }
  const float largest = logit_of(logits, chosen[0]);
  double sum = 0;
  for (int slot = 0; slot < mixture.top_k; ++slot) {
    weights[slot] = std::exp(logit_of(logits, chosen[slot]) - largest);
    sum += weights[slot];
  }
  if (!mixture.renormalise) {
    sum = 0;
    for (int e = 0; e < mixture.experts; ++e) sum += std::exp(logit_of(logits, e) - largest);
  }
  for (int slot = 0; slot < mixture.top_k; ++slot) {
    weights[slot] = static_cast<float>(weights[slot] / sum);
  }
}

}  // namespace

void route(CpuDevice& device, const MlpInputArgs& args, const Activations& normed) {
  const MixtureSpec& mixture = args.mlp->mixture;
  float* logits = device.scratch()->product();  // [rows][experts]
  const Product product{mixture.router, logits, mixture.experts};
  multiply(device, normed, product);
  for (std::int64_t row = 0; row < args.rows; ++row) {
    choose(mixture, logits + row * mixture.experts, args.chosen + row * mixture.top_k,
           args.weights + row * mixture.top_k);
  }
}

void mixture_input(CpuDevice& device, const MlpInputArgs& args, const float* normed) {
  const MlpSpec& mlp = *args.mlp;
  const MixtureSpec& mixture = mlp.mixture;
  const std::int64_t places = std::int64_t{args.rows} * mixture.top_k;
  float* input = device.scratch()->expert(0);
  float* gated = device.scratch()->expert(1);
  auto* inner = static_cast<float*>(args.inner);
  for (int expert = 0; expert < mixture.experts; ++expert) {
    std::int64_t next = 0;
    for (;;) {
      const ExpertRows rows = collect(args.chosen, places, expert, args.rows, next);
      if (rows.count == 0) break;
      for (int i = 0; i < rows.count; ++i) {
        copy_row(normed + rows.places[i] / mixture.top_k * args.width, args.width,
                 input + std::int64_t{i} * args.width);
      }
      const RowBlock x{prepare_rows(device, input, rows.count, args.width)};
      const GatedProduct product{mixture.gate[expert], mixture.up[expert], mlp.activation, mlp.ff,
                                 gated};
      for_parts(device, product_grid(device, rows.count, ceil_div(mlp.ff, kPanelRows)),
                [&](const ProductPart& part, int worker) {
                  gate_and_up(device, x, product, part, worker);
                });
      for (int i = 0; i < rows.count; ++i) {
        copy_row(gated + std::int64_t{i} * mlp.ff, mlp.ff, inner + rows.places[i] * mlp.ff);
      }
    }
  }
}

void mixture_output(CpuDevice& device, const MlpOutputArgs& args, float* sums) {
  const MlpSpec& mlp = *args.mlp;
  const MixtureSpec& mixture = mlp.mixture;
  const std::int64_t places = std::int64_t{args.rows} * mixture.top_k;
  const std::int64_t width = args.width;
  const auto* inner = static_cast<const float*>(args.inner);
  std::memset(sums, 0, sizeof(float) * static_cast<std::size_t>(args.rows * width));
  float* input = device.scratch()->expert(0);
  float* output = device.scratch()->expert(1);
  for (int expert = 0; expert < mixture.experts; ++expert) {
    std::int64_t next = 0;
    for (;;) {
      const ExpertRows rows = collect(args.chosen, places, expert, args.rows, next);
      if (rows.count == 0) break;
      for (int i = 0; i < rows.count; ++i) {
        copy_row(inner + rows.places[i] * mlp.ff, mlp.ff, input + std::int64_t{i} * mlp.ff);
      }
      const Activations x = prepare_rows(device, input, rows.count, mlp.ff);
      const Product product{&mixture.down[expert], output, width};
      multiply(device, x, product);
      for (int i = 0; i < rows.count; ++i) {
        device.row().add_scaled(output + i * width, args.weights[rows.places[i]], args.width,
                                sums + rows.places[i] / mixture.top_k * width);
      }
    }
  }
}

}  // namespace quire::cpu
