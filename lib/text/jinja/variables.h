#pragma once

#include "base/json.h"
#include "text/jinja/runtime.h"

namespace quire::text::jinja {

// A JSON value as a template sees it. All strings of it, keys too, have the given trust.
Value from_json(Runtime& runtime, const Json& json, Trust trust);

}  // namespace quire::text::jinja
