#pragma once

#include <string>
#include <string_view>

#include <quire/status.h>

namespace examples {

quire::Result<std::string> read_file(const std::string& path);
// Everything that standard input holds, byte for byte.
quire::Result<std::string> read_standard_input();
void print(std::string_view text);
// Flushes standard output; not ok if anything printed was lost (a full disk, a closed pipe).
quire::Status finish_output();

}  // namespace examples
