#include "format/gguf_metadata.h"

#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/error.h"
#include "format/printable.h"

namespace quire::format {
namespace {

constexpr std::size_t kMaxKeyBytes = 65535;       // the specification's
constexpr std::uint64_t kMaxAllItems = 1u << 26;  // of all arrays of a file
constexpr std::uint64_t kMaxItems = 1u << 24;     // of an array: far above any vocabulary

enum class ValueType : std::uint32_t {
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
  f64,
};
constexpr std::uint32_t kValueTypes = 13;
// Bytes of a value, of a string at least; 0 for arrays.
constexpr std::size_t kValueBytes[kValueTypes] = {1, 1, 2, 2, 4, 4, 4, 1, 8, 0, 8, 8, 8};

template <class Stored, class Wide>
Result<GgufValue> read_numbers(GgufReader& reader, const std::string& item, std::size_t count) {
  std::vector<Wide> items(count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::optional<Stored> v = reader.number<Stored>();
    if (!v) return ends_inside(item, reader);
    if constexpr (std::is_same_v<Stored, std::uint64_t>) {
      if (*v > static_cast<std::uint64_t>(INT64_MAX))
        return error(StatusCode::unsupported, "{}: item {} is {}, the most is {}", item, i, *v,
                     INT64_MAX);
    }
    items[i] = static_cast<Wide>(*v);
  }
  return GgufValue{std::move(items)};
}

Result<bool> read_boolean(GgufReader& reader, const std::string& item) {
  const auto v = reader.number<std::uint8_t>();
  if (!v) return ends_inside(item, reader);
  if (*v > 1) return error(StatusCode::malformed, "{}: a boolean with the value {}", item, *v);
  return *v == 1;
}

Result<GgufValue> read_booleans(GgufReader& reader, const std::string& item, std::size_t count) {
  std::vector<bool> items(count);
  for (std::size_t i = 0; i < count; ++i) {
    const Result<bool> v = read_boolean(reader, item);
    if (!v) return v.status();
    items[i] = *v;
  }
  return GgufValue{std::move(items)};
}

Result<GgufValue> read_strings(GgufReader& reader, const std::string& item, std::size_t count) {
  GgufValue::Strings items(count);
  for (std::size_t i = 0; i < count; ++i) {
    const auto v = reader.string();
    if (!v) return string_error(fmt::format("{}: item {}", item, i), reader);
    items[i] = *v;
  }
  return GgufValue{std::move(items)};
}

Result<GgufValue> read_array(GgufReader& reader, const std::string& item) {
  const auto type = reader.number<std::uint32_t>();
  const auto count = reader.number<std::uint64_t>();
  if (!type || !count) return ends_inside(item, reader);
  if (*type >= kValueTypes)
    return error(StatusCode::malformed, "{}: an array of unknown type {}", item, *type);
  const auto element = static_cast<ValueType>(*type);
  if (element == ValueType::array)
    return error(StatusCode::unsupported, "{}: an array of arrays", item);
  if (*count > reader.left() / kValueBytes[*type])
    return error(StatusCode::malformed,
                 "{}: an array of {} items of {} bytes or more, but {} bytes are left", item,
                 *count, kValueBytes[*type], reader.left());
  if (*count > kMaxItems)
    return error(StatusCode::unsupported, "{}: an array of {} items, the most is {}", item, *count,
                 kMaxItems);
  if (!reader.has(*count * kValueBytes[*type])) return ends_inside(item, reader);
  // Small items are widened eightfold and more: many arrays together are bounded too.
  if (!reader.count_items(*count, kMaxAllItems))
    return error(StatusCode::unsupported, "{}: all arrays together have more than {} items", item,
                 kMaxAllItems);
  const auto n = static_cast<std::size_t>(*count);
  switch (element) {
    case ValueType::u8:
      return read_numbers<std::uint8_t, std::int64_t>(reader, item, n);
    case ValueType::i8:
      return read_numbers<std::int8_t, std::int64_t>(reader, item, n);
    case ValueType::u16:
      return read_numbers<std::uint16_t, std::int64_t>(reader, item, n);
    case ValueType::i16:
      return read_numbers<std::int16_t, std::int64_t>(reader, item, n);
    case ValueType::u32:
      return read_numbers<std::uint32_t, std::int64_t>(reader, item, n);
    case ValueType::i32:
      return read_numbers<std::int32_t, std::int64_t>(reader, item, n);
    case ValueType::u64:
      return read_numbers<std::uint64_t, std::int64_t>(reader, item, n);
    case ValueType::i64:
      return read_numbers<std::int64_t, std::int64_t>(reader, item, n);
    case ValueType::f32:
      return read_numbers<float, double>(reader, item, n);
    case ValueType::f64:
      return read_numbers<double, double>(reader, item, n);
    case ValueType::boolean:
      return read_booleans(reader, item, n);
    case ValueType::string:
      return read_strings(reader, item, n);
    case ValueType::array:
      break;
  }
  return error(StatusCode::internal, "{}: array type {}", item, *type);
}

template <class Stored, class Wide>
Result<GgufValue> read_number(GgufReader& reader, const std::string& item) {
  const auto v = reader.number<Stored>();
  if (!v) return ends_inside(item, reader);
  return GgufValue{static_cast<Wide>(*v)};
}

Result<GgufValue> read_value(GgufReader& reader, const std::string& item) {
  const auto type = reader.number<std::uint32_t>();
  if (!type) return ends_inside(item, reader);
  switch (static_cast<ValueType>(*type)) {
    case ValueType::u8:
      return read_number<std::uint8_t, std::uint64_t>(reader, item);
    case ValueType::u16:
      return read_number<std::uint16_t, std::uint64_t>(reader, item);
    case ValueType::u32:
      return read_number<std::uint32_t, std::uint64_t>(reader, item);
    case ValueType::u64:
      return read_number<std::uint64_t, std::uint64_t>(reader, item);
    case ValueType::i8:
      return read_number<std::int8_t, std::int64_t>(reader, item);
    case ValueType::i16:
      return read_number<std::int16_t, std::int64_t>(reader, item);
    case ValueType::i32:
      return read_number<std::int32_t, std::int64_t>(reader, item);
    case ValueType::i64:
      return read_number<std::int64_t, std::int64_t>(reader, item);
    case ValueType::f32:
      return read_number<float, double>(reader, item);
    case ValueType::f64:
      return read_number<double, double>(reader, item);
    case ValueType::boolean: {
      const Result<bool> v = read_boolean(reader, item);
      if (!v) return v.status();
      return GgufValue{*v};
    }
    case ValueType::string: {
      const auto v = reader.string();
      if (!v) return string_error(item, reader);
      return GgufValue{*v};
    }
    case ValueType::array:
      return read_array(reader, item);
  }
  return error(StatusCode::malformed, "{}: unknown value type {}", item, *type);
}

}  // namespace

Result<GgufValues> read_metadata(GgufReader& reader, const std::string& file, std::uint64_t count) {
  GgufValues values;
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::string place = fmt::format("{}: key {}", file, i);
    const auto key = reader.string();
    if (!key) return string_error(place, reader);
    if (key->empty() || key->size() > kMaxKeyBytes)
      return error(StatusCode::malformed, "{}: its name has {} bytes, allowed are 1 to {}", place,
                   key->size(), kMaxKeyBytes);
    const std::string item = fmt::format("{}: {}", file, printable(*key));
    Result<GgufValue> value = read_value(reader, item);
    if (!value) return value.status();
    if (!values.emplace(*key, *std::move(value)).second)
      return error(StatusCode::malformed, "{}: the key appears twice", item);
  }
  return values;
}

}  // namespace quire::format
