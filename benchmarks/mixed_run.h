#pragma once

#include <cstdint>

#include <quire/quire.h>

#include "support/json.h"

struct MixedShape {
  int prompt_tokens = 0;     // of each request
  int shared_prefix = 0;     // first tokens that all prompts have in common
  int generated_tokens = 0;  // of each request
  int requests = 0;          // at once
  std::uint64_t run = 0;     // each has prompts of its own behind the shared prefix
};

// Submits all requests at once and runs them to the end. The members of the result are what
// end_to_end.cpp explains.
quire::Result<examples::Json> measure_mixed(quire::Engine& engine, const MixedShape& shape);
