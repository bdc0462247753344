#pragma once

#include <string_view>

#include "text/jinja/arguments.h"
#include "text/jinja/runtime.h"

namespace quire::text::jinja {

// value is name(arguments). Throws `unsupported` for a test that is not there.
bool apply_test(Runtime& runtime, std::string_view name, const Value& value,
                const Arguments& arguments);

}  // namespace quire::text::jinja
