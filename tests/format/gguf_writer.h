#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

// Writes GGUF files for tests, also wrong ones: nothing is checked.
class GgufWriter {
 public:
  enum Type : std::uint32_t {
    u8,
    i8,
    u16,
    i16,
    u32,
    i32,
    f32,
    boolean,
    string,
    array,
    u64,
    i64,
    f64
  };

  std::uint32_t version = 3;
  std::uint64_t alignment = 32;  // of the data; the key is not added by itself

  template <class T>
  static std::string raw(T value) {
    std::string bytes(sizeof(T), '\0');
    std::memcpy(bytes.data(), &value, sizeof(T));
    return bytes;
  }
  static std::string raw_string(std::string_view text) {
    return raw(std::uint64_t{text.size()}) + std::string(text);
  }

  // A value of that type whose bytes are given.
  GgufWriter& add(std::string_view key, std::uint32_t type, const std::string& bytes) {
    metadata_ += raw_string(key) + raw(type) + bytes;
    ++pairs_;
    return *this;
  }
  GgufWriter& add_u32(std::string_view key, std::uint32_t value) {
    return add(key, u32, raw(value));
  }
  GgufWriter& add_string(std::string_view key, std::string_view value) {
    return add(key, string, raw_string(value));
  }
  // An array whose count and items are given as they are written.
  GgufWriter& add_array(std::string_view key, std::uint32_t type, std::uint64_t count,
                        const std::string& items) {
    return add(key, array, raw(type) + raw(count) + items);
  }
  GgufWriter& add_strings(std::string_view key, const std::vector<std::string>& items) {
    std::string bytes;
    for (const std::string& item : items) bytes += raw_string(item);
    return add_array(key, string, items.size(), bytes);
  }
  // Extents in the order of the file: the contiguous one first.
  GgufWriter& add_tensor(std::string_view name, const std::vector<std::uint64_t>& extents,
                         std::uint32_t type, const std::string& bytes) {
    data_.resize((data_.size() + alignment - 1) / alignment * alignment);
    infos_ += raw_string(name) + raw(static_cast<std::uint32_t>(extents.size()));
    for (std::uint64_t extent : extents) infos_ += raw(extent);
    infos_ += raw(type) + raw(std::uint64_t{data_.size()});
    data_ += bytes;
    ++tensors_;
    return *this;
  }

  std::string bytes() const {
    std::string file = "GGUF" + raw(version) + raw(tensors_) + raw(pairs_) + metadata_ + infos_;
    if (tensors_ > 0) file.resize((file.size() + alignment - 1) / alignment * alignment);
    return file + data_;
  }

 private:
  std::uint64_t tensors_ = 0, pairs_ = 0;
  std::string metadata_, infos_, data_;
};
