#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <quire/status.h>

namespace quire::format {

static_assert(std::endian::native == std::endian::little, "GGUF is read as it lies in memory");

// Reads forward through the bytes; a read past the end fails and leaves the position.
class GgufReader {
 public:
  explicit GgufReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  std::size_t position() const { return at_; }
  std::size_t left() const { return bytes_.size() - at_; }

  // Adds to the number of array items read so far; false if that is then more than `most`.
  bool count_items(std::uint64_t items, std::uint64_t most) {
    if (items > most - items_) return false;
    items_ += items;
    return true;
  }

  template <class T>
  std::optional<T> number() {
    if (left() < sizeof(T)) return std::nullopt;
    T value;
    std::memcpy(&value, bytes_.data() + at_, sizeof(T));
    at_ += sizeof(T);
    return value;
  }

  // A length and that many bytes.
  std::optional<std::string_view> string() {
    const auto size = number<std::uint64_t>();
    if (!size) return std::nullopt;
    if (*size > left()) {
      at_ -= sizeof(std::uint64_t);
      return std::nullopt;
    }
    const std::string_view text(reinterpret_cast<const char*>(bytes_.data()) + at_,
                                static_cast<std::size_t>(*size));
    at_ += text.size();
    return text;
  }

 private:
  std::span<const std::byte> bytes_;
  std::size_t at_ = 0;
  std::uint64_t items_ = 0;  // of arrays
};

// "`item`: the file ends inside it ...", for a number that could not be read.
Status ends_inside(const std::string& item, const GgufReader& reader);
// Why a string could not be read: the end of the file, or a length beyond it.
Status string_error(const std::string& item, GgufReader reader);

}  // namespace quire::format
