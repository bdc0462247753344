#pragma once

#include "text/jinja/arguments.h"
#include "text/jinja/runtime.h"

namespace quire::text::jinja {

// tojson(ensure_ascii, indent, separators, sort_keys), as Hugging Face defines it: json.dumps,
// ensure_ascii off unless given. Strings keep their trust; all punctuation is untrusted.
Value to_json(Runtime& runtime, const Value& value, const Arguments& arguments);

}  // namespace quire::text::jinja
