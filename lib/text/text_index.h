#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace quire::text {

// Distinct texts, numbered from 0 in the order in which they came, at most 2^30. Few large blocks
// however many texts there are: their bytes one after the other, and a table of numbers with open
// addressing and linear probing.
class TextIndex {
 public:
  static constexpr std::int32_t absent = -1;

  TextIndex() : TextIndex(0, 0) {}
  // Room for `count` texts of `bytes` altogether.
  TextIndex(std::size_t count, std::size_t bytes);

  std::size_t size() const { return ends_.size(); }
  // Holds until the next text is inserted.
  std::string_view operator[](std::int32_t number) const {
    const std::size_t begin = number == 0 ? 0 : ends_[number - 1];
    return std::string_view(bytes_).substr(begin, ends_[number] - begin);
  }
  std::int32_t find(std::string_view text) const { return slots_[slot_of(text)]; }

  struct Inserted {
    std::int32_t number;
    bool added;  // it was absent before
  };
  Inserted insert(std::string_view text);

 private:
  std::size_t slot_of(std::string_view text) const;  // where it is or would be
  void grow();

  std::string bytes_;
  std::vector<std::size_t> ends_;    // of each text in bytes_
  std::vector<std::int32_t> slots_;  // numbers or absent; a power of two, never full
};

}  // namespace quire::text
