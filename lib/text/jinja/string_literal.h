#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace quire::text::jinja {

// The text of a string literal, given what stands between its quotes: Python's escapes. An unknown
// escape stays as it is. Nothing if Python refuses it (a short \x or \u, a surrogate, \N{...}).
std::optional<std::string> decode_string_literal(std::string_view literal);

}  // namespace quire::text::jinja
