#pragma once

#include <string>
#include <string_view>

namespace quire::text {

// Turns the bytes of successive tokens into whole UTF-8 characters. Emits the longest prefix made
// of complete characters, U+FFFD for each maximal ill-formed part (WHATWG), and holds an incomplete
// tail back until more bytes or the end come.
class Utf8Stream {
 public:
  std::string feed(std::string_view bytes);
  std::string finish();  // the held tail as one U+FFFD, or ""

 private:
  std::string held_;  // at most 3 bytes
};

// The whole text with every ill-formed part replaced by U+FFFD.
std::string replace_ill_formed(std::string_view bytes);

}  // namespace quire::text
