#include "text/detokenizer.h"

#include "text/utf8.h"

namespace quire::text {
namespace {

// Appends what can be decided of `bytes` and returns the incomplete tail.
std::string_view decode(std::string_view bytes, std::string& out) {
  std::size_t copied = 0;  // bytes[copied, at) are well-formed and not yet appended
  std::size_t at = 0;
  while (at < bytes.size()) {
    const Utf8Step step = next_utf8(bytes.substr(at));
    if (step.kind == Utf8Step::Kind::incomplete) break;
    if (step.kind == Utf8Step::Kind::ill_formed) {
      out.append(bytes, copied, at - copied);
      out += replacement_character;
      copied = at + step.length;
    }
    at += step.length;
  }
  out.append(bytes, copied, at - copied);
  return bytes.substr(at);
}

}  // namespace

std::string Utf8Stream::feed(std::string_view bytes) {
  std::string text;
  if (held_.empty()) {
    held_ = decode(bytes, text);
  } else {
    held_ += bytes;
    const std::string joined = std::move(held_);
    held_ = decode(joined, text);
  }
  return text;
}

std::string Utf8Stream::finish() {
  const bool incomplete = !held_.empty();
  held_.clear();
  return std::string(incomplete ? replacement_character : std::string_view());
}

std::string replace_ill_formed(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size());
  if (!decode(bytes, text).empty()) text += replacement_character;
  return text;
}

}  // namespace quire::text
