#pragma once

#include <cfloat>
#include <cstdint>

#include "sampling/device_draw.h"
#include "sampling/shares.cuh"
#include "sampling/team.cuh"

namespace quire::cuda {

// Penalties, bias, banned and allowed tokens on the draw's copy of its logits: the same steps, in
// the same order and arithmetic, as quire::sampling::change_logits. By the leader; what goes over
// the whole row is shared.

constexpr std::int32_t kInPromptOnly = -1;

__device__ inline void store_logit(float& logit, double value) {
  if (isfinite(logit))
    logit = static_cast<float>(fmin(fmax(value, -double{FLT_MAX}), double{FLT_MAX}));
}

// Calls body(id) for the ids of a list that are in the vocabulary.
template <class Body>
__device__ inline void each_id(const std::int32_t* ids, int count, int vocabulary, Body body) {
  for (int i = threadIdx.x; i < count; i += blockDim.x) {
    if (ids[i] >= 0 && ids[i] < vocabulary) body(ids[i]);
  }
  __syncthreads();
}

__device__ inline void apply_penalties(const DeviceDraw& draw, const std::int32_t* words,
                                       int vocabulary) {
  float* logits = draw.changed;
  std::int32_t* counts = draw.counts;
  const bool with_prompt = draw.repetition_penalty != 1;
  const int prompt_count = with_prompt ? draw.prompt_count : 0;
  each_id(words + draw.output, draw.output_count, vocabulary,
          [&](std::int32_t id) { atomicAdd(counts + id, 1); });
  each_id(words + draw.prompt, prompt_count, vocabulary,
          [&](std::int32_t id) { atomicCAS(counts + id, 0, kInPromptOnly); });
  // Of all places where a token stands one thread finds its count, and clears it.
  const auto penalise = [&](std::int32_t id) {
    const std::int32_t count = atomicExch(counts + id, 0);
    if (count == 0) return;
    const double logit = logits[id];
    double value = logit > 0 ? logit / draw.repetition_penalty : logit * draw.repetition_penalty;
    if (count > 0) value -= double{draw.frequency_penalty} * count + draw.presence_penalty;
    store_logit(logits[id], value);
  };
  each_id(words + draw.output, draw.output_count, vocabulary, penalise);
  each_id(words + draw.prompt, prompt_count, vocabulary, penalise);
}

// In the order of the list, which may name a token twice.
__device__ inline void apply_bias(const DeviceDraw& draw, const std::int32_t* words,
                                  int vocabulary) {
  const std::int32_t* bias = words + draw.bias;
  for (int i = threadIdx.x; i < draw.bias_count; i += blockDim.x) {
    const std::int32_t id = bias[2 * i];
    if (id < 0 || id >= vocabulary) continue;
    bool first = true;
    for (int j = 0; j < i; ++j) first = first && bias[2 * j] != id;
    if (!first) continue;
    for (int j = i; j < draw.bias_count; ++j) {
      if (bias[2 * j] != id) continue;
      store_logit(draw.changed[id], double{draw.changed[id]} + __int_as_float(bias[2 * j + 1]));
    }
  }
  __syncthreads();
}

__device__ inline void keep_only_allowed(const DeviceDraw& draw, const std::int32_t* words,
                                         LogitRow& row, const Team& team) {
  const std::int32_t* allowed = words + draw.allowed;
  each_id(allowed, draw.allowed_count, row.vocabulary,
          [&](std::int32_t id) { draw.counts[id] = 1; });
  Task task{};
  task.kind = Task::Kind::keep_allowed;
  task.logits = task.changed = draw.changed;
  task.counts = draw.counts;
  do_together(task, row, team);
  each_id(allowed, draw.allowed_count, row.vocabulary,
          [&](std::int32_t id) { draw.counts[id] = 0; });
}

// Leaves the row at the changed logits.
__device__ inline void change_logits(const DeviceDraw& draw, const std::int32_t* words,
                                     LogitRow& row, const Team& team) {
  Task task{};
  task.kind = Task::Kind::copy;
  task.logits = draw.raw;
  task.changed = draw.changed;
  do_together(task, row, team);
  row.read(draw.changed);
  const int vocabulary = row.vocabulary;
  if (draw.repetition_penalty != 1 || draw.frequency_penalty != 0 || draw.presence_penalty != 0) {
    apply_penalties(draw, words, vocabulary);
  }
  if (draw.bias_count > 0) apply_bias(draw, words, vocabulary);
  each_id(words + draw.banned, draw.banned_count, vocabulary,
          [&](std::int32_t id) { draw.changed[id] = -INFINITY; });
  if (draw.allowed_count > 0) keep_only_allowed(draw, words, row, team);
}

}  // namespace quire::cuda
