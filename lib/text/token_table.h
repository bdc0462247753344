#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace quire::text {

// The numbers are those of tokenizer.ggml.token_type and of sentencepiece's Type.
enum class TokenKind : std::uint8_t {
  normal = 1,
  unknown = 2,
  control = 3,
  user_defined = 4,
  unused = 5,
  byte = 6,
};

// The tokens of a vocabulary by their ids. Two large blocks however many there are: a string for
// each would take several times the memory of its bytes.
class TokenTable {
 public:
  struct Token {
    std::string_view
        text;  // the bytes that join the text; of control and unknown tokens their name
    TokenKind kind;
  };

  std::size_t size() const { return places_.size(); }
  // Its text holds until the next token is added or set.
  Token operator[](std::size_t id) const {
    const Place& place = places_[id];
    return {std::string_view(bytes_).substr(place.begin, place.size), place.kind};
  }

  // Room for `count` tokens with `bytes` of text altogether.
  void reserve(std::size_t count, std::size_t bytes) {
    places_.reserve(count);
    bytes_.reserve(bytes);
  }
  // New tokens are unused and have no text.
  void resize(std::size_t count) { places_.resize(count); }
  void add(std::string_view text, TokenKind kind) {
    places_.emplace_back();
    set(places_.size() - 1, text, kind);
  }
  // A text ends at 4 GiB. The bytes of the text before stay taken.
  void set(std::size_t id, std::string_view text, TokenKind kind) {
    text = text.substr(0, UINT32_MAX);
    places_[id] = {bytes_.size(), static_cast<std::uint32_t>(text.size()), kind};
    bytes_ += text;
  }
  void set_kind(std::size_t id, TokenKind kind) { places_[id].kind = kind; }

 private:
  struct Place {
    std::size_t begin = 0;  // in bytes_
    std::uint32_t size = 0;
    TokenKind kind = TokenKind::unused;
  };
  std::vector<Place> places_;
  std::string bytes_;
};

}  // namespace quire::text
