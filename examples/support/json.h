#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <quire/quire.h>
#include <nlohmann/json.hpp>

namespace examples {

// Members keep the order of the text: chat templates print them in it.
using Json = nlohmann::ordered_json;

// Messages count lines from `first_line`.
quire::Result<Json> parse_json(std::string_view text, std::size_t first_line = 1);
quire::Result<Json> read_json_file(const std::string& path);
// Compact; ill-formed UTF-8 becomes U+FFFD.
std::string to_text(const Json& value);

// `value` as a list of token ids.
quire::Result<std::vector<std::int32_t>> token_ids_from_json(const Json& value);

// Sets the conversation of a request from an array of messages, or from an object with "messages"
// and further variables of the chat template ("tools", ...).
quire::Status read_conversation(const Json& value, quire::Request& request);

// The members {choices, prompt_logprobs, usage, seed} of a finished generation. Log-probabilities
// are null where the request did not ask for them.
Json generation_to_json(const quire::Generation& generation, const quire::Request& request);

}  // namespace examples
