#pragma once

#include <optional>
#include <string_view>

#include "text/jinja/runtime.h"

namespace quire::text::jinja {

// How one value is written: Python's [[fill]align][sign][#][0][width][,][.precision][type].
struct FormatSpec {
  char32_t fill = ' ';
  char align = '\0';  // '<', '>', '^', '=' or 0: what the type wants
  char sign = '-';
  bool alternate = false;
  bool thousands = false;
  std::int64_t width = 0;
  std::optional<int> precision;
  char type = '\0';
};

// Throws if the spec is not well-formed.
FormatSpec parse_format_spec(std::string_view spec);
TracedText format_with(Runtime& runtime, const Value& value, const FormatSpec& spec);

}  // namespace quire::text::jinja
