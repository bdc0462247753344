#pragma once

#include <string_view>

#include "text/jinja/arguments.h"
#include "text/jinja/runtime.h"

namespace quire::text::jinja {

// value | name(arguments). Throws `unsupported` for a filter that is not there.
Value apply_filter(Runtime& runtime, std::string_view name, const Value& value,
                   Arguments& arguments);

using Filter = Value (*)(Runtime&, const Value& value, Arguments&);

// The filters by what they work on; null if the group has none of that name.
Filter find_text_filter(std::string_view name);
Filter find_number_filter(std::string_view name);
Filter find_sequence_filter(std::string_view name);
Filter find_selection_filter(std::string_view name);
Filter find_sorting_filter(std::string_view name);

}  // namespace quire::text::jinja
