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

// Reads forward through the bytes; a read past the end fails and leaves the position. The bytes may
// be only the beginning of a file.
class GgufReader {
 public:
  explicit GgufReader(std::span<const std::byte> bytes) : GgufReader(bytes, bytes.size()) {}
  // `total`: bytes of the file, at least those that are here.
  GgufReader(std::span<const std::byte> bytes, std::size_t total) : bytes_(bytes), total_(total) {}

  std::size_t position() const { return at_; }
  std::size_t left() const { return total_ - at_; }  // to the end of the file

  // Whether so many bytes are here. If the file has them and they are not, reading fails for that
  // reason alone: `needs_more`.
  bool has(std::size_t bytes) {
    if (bytes <= bytes_.size() - at_) return true;
    needs_more_ = needs_more_ || bytes <= left();
    return false;
  }
  bool needs_more() const { return needs_more_; }

  // Adds to the number of array items read so far; false if that is then more than `most`.
  bool count_items(std::uint64_t items, std::uint64_t most) {
    if (items > most - items_) return false;
    items_ += items;
    return true;
  }

  template <class T>
  std::optional<T> number() {
    if (!has(sizeof(T))) return std::nullopt;
    T value;
    std::memcpy(&value, bytes_.data() + at_, sizeof(T));
    at_ += sizeof(T);
    return value;
  }

  // A length and that many bytes.
  std::optional<std::string_view> string() {
    const auto size = number<std::uint64_t>();
    if (!size) return std::nullopt;
    if (!has(*size)) {
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
  std::size_t total_;
  bool needs_more_ = false;
  std::size_t at_ = 0;
  std::uint64_t items_ = 0;  // of arrays
};

// "`item`: the file ends inside it ...", for a number that could not be read.
Status ends_inside(const std::string& item, const GgufReader& reader);
// Why a string could not be read: the end of the file, or a length beyond it.
Status string_error(const std::string& item, GgufReader reader);

}  // namespace quire::format
