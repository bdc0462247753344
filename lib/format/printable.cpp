#include "format/printable.h"

namespace quire::format {

std::string printable(std::string_view name) {
  constexpr std::size_t kMost = 80;
  std::string text(name.substr(0, kMost));
  for (char& c : text) {
    if (c < 0x20 || c > 0x7e) c = '?';
  }
  if (name.size() > kMost) text += "...";
  return text;
}

}  // namespace quire::format
