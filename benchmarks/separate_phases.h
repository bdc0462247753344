#pragma once

#include <cstdint>

#include <quire/quire.h>

struct PhaseShape {
  int prompt_tokens = 0;  // of each sequence
  int decode_tokens = 0;  // timed, of each sequence
  int sequences = 0;
  int step_tokens = 0;  // most of a pass
};

struct PhaseSpeeds {
  double prefill = 0;  // tokens per second
  double decode = 0;   // tokens per second, all sequences together
  double context = 0;  // mean tokens of a sequence when the first timed decode pass begins
};

// Most tokens that a sequence may reach while a shape is measured.
int longest_sequence(const PhaseShape& shape);

// Times prefill and decode of one shape apart, the way llama-bench and llama-batched-bench do it.
// Prefill: the passes that compute all prompts, for requests of one token. Decode: the same prompts
// again, which the prefix cache has by then; the first `decode_tokens` passes in which every
// sequence decodes and no prompt is computed. A pass counts until its events are there. Prompts are
// random and distinct; `seed` differs for each measurement of an engine, so that its cache knows
// none of them. Fails if the engine never runs all sequences together for so long.
quire::Result<PhaseSpeeds> measure_phases(quire::Engine& engine, const PhaseShape& shape,
                                          std::uint64_t seed);
