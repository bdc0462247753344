#pragma once

#include <string>
#include <string_view>

namespace quire::format {

// A name from an untrusted file for a message: at most 80 bytes, control and non-ASCII bytes as
// '?'.
std::string printable(std::string_view name);

}  // namespace quire::format
