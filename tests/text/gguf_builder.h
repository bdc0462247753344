#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace quire::text {

// Writes a GGUF without tensors, key by key.
class GgufBuilder {
 public:
  GgufBuilder& string(std::string_view key, std::string_view value) {
    header(key, 8);
    append(value);
    return *this;
  }
  GgufBuilder& u32(std::string_view key, std::uint32_t value) {
    header(key, 4);
    number(value);
    return *this;
  }
  GgufBuilder& boolean(std::string_view key, bool value) {
    header(key, 7);
    values_ += static_cast<char>(value);
    return *this;
  }
  GgufBuilder& strings(std::string_view key, const std::vector<std::string>& values) {
    array(key, 8, values.size());
    for (const auto& value : values) append(value);
    return *this;
  }
  GgufBuilder& i32s(std::string_view key, const std::vector<std::int32_t>& values) {
    array(key, 5, values.size());
    for (const auto value : values) number(value);
    return *this;
  }
  GgufBuilder& f32s(std::string_view key, const std::vector<float>& values) {
    array(key, 6, values.size());
    for (const auto value : values) number(value);
    return *this;
  }
  std::string bytes() const {
    GgufBuilder head;
    head.values_ = "GGUF";
    head.number(std::uint32_t{3});
    head.number(std::uint64_t{0});
    head.number(count_);
    return head.values_ + values_ + std::string(64, '\0');
  }

 private:
  template <class T>
  void number(T value) {
    char bytes[sizeof value];
    std::memcpy(bytes, &value, sizeof value);
    values_.append(bytes, sizeof value);
  }
  void append(std::string_view text) {
    number(static_cast<std::uint64_t>(text.size()));
    values_ += text;
  }
  void header(std::string_view key, std::uint32_t type) {
    ++count_;
    append(key);
    number(type);
  }
  void array(std::string_view key, std::uint32_t type, std::size_t count) {
    header(key, 9);
    number(type);
    number(static_cast<std::uint64_t>(count));
  }
  std::string values_;
  std::uint64_t count_ = 0;
};

}  // namespace quire::text
