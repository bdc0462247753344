#pragma once

#include <quire/quire.h>

#include "support/json.h"

namespace examples {

// The members {choices, prompt_logprobs, usage, seed} of a finished generation. Log-probabilities
// are null where the request did not ask for them.
Json generation_to_json(const quire::Generation& generation, const quire::Request& request);

}  // namespace examples
