#pragma once

#include <quire/quire.h>

#include "support/json.h"

namespace examples {

// Sets the conversation of a request from an array of messages, or from an object with "messages"
// and further variables of the chat template ("tools", ...).
quire::Status read_conversation(const Json& value, quire::Request& request);

// Sets the fields of `request` that the object `value` names: prompt (text; with "raw": true it is
// continued as it is, else it is a message of a user), messages (with tools and other template
// variables in "template"), tokens, and the fields of Request and SamplingParams under their own
// names. "id" is left to the caller. Fields of another type or name are errors.
quire::Status read_request(const Json& value, quire::Request& request);

}  // namespace examples
