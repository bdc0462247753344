#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <quire/status.h>

#include "base/json.h"
#include "text/normalizer.h"
#include "text/pre_tokenizer.h"

namespace quire::text {

// Members of a JSON object, or the default where they are absent or null; `malformed` if they have
// another type. `where` names the object for messages.
Result<bool> json_bool(const Json& object, std::string_view key, bool absent,
                       const std::string& where);
Result<std::string> json_string(const Json& object, std::string_view key, std::string_view absent,
                                const std::string& where);

// The "normalizer" of a tokenizer.json; null or nothing: no step.
Result<std::vector<NormalizerStep>> read_normalizer(const Json* json, const std::string& file);

// Its "pre_tokenizer".
struct PreTokenizerSteps {
  std::vector<PreTokenizerStep> steps;
  bool byte_level = false;  // words are encoded as bytes
};
Result<PreTokenizerSteps> read_pre_tokenizer(const Json* json, const std::string& file);

}  // namespace quire::text
