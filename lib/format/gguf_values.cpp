// The typed reads of GgufHeader.
#include <cmath>
#include <cstdint>
#include <optional>

#include "base/error.h"
#include "format/gguf.h"

namespace quire::format {
namespace {

// What a value is, in words for messages; by the order of the variant.
constexpr const char* kKinds[] = {"an unsigned integer",
                                  "a signed integer",
                                  "a float",
                                  "a boolean",
                                  "a string",
                                  "an array of integers",
                                  "an array of floats",
                                  "an array of booleans",
                                  "an array of strings"};

Status wrong_kind(const std::string& file, std::string_view key, const GgufValue& found,
                  const char* wanted) {
  return error(StatusCode::malformed, "{}: {}: is {}, wanted is {}", file, key,
               kKinds[found.value.index()], wanted);
}

Status missing(const std::string& file, std::string_view key) {
  return error(StatusCode::not_found, "{}: {}: the key is missing", file, key);
}

Status outside(const std::string& file, std::string_view key, const auto& value, std::int64_t low,
               std::int64_t high) {
  return error(StatusCode::malformed, "{}: {}: {} is outside {} ... {}", file, key, value, low,
               high);
}

}  // namespace

const GgufValue* GgufHeader::find(std::string_view key) const {
  const auto at = values_.find(key);
  return at == values_.end() ? nullptr : &at->second;
}

Result<std::int64_t> GgufHeader::integer(std::string_view key, std::int64_t low,
                                         std::int64_t high) const {
  const GgufValue* found = find(key);
  if (!found) return missing(file_, key);
  std::int64_t value = 0;
  if (const auto* u = std::get_if<std::uint64_t>(&found->value)) {
    if (*u > static_cast<std::uint64_t>(INT64_MAX)) return outside(file_, key, *u, low, high);
    value = static_cast<std::int64_t>(*u);
  } else if (const auto* i = std::get_if<std::int64_t>(&found->value)) {
    value = *i;
  } else {
    return wrong_kind(file_, key, *found, "an integer");
  }
  if (value < low || value > high) return outside(file_, key, value, low, high);
  return value;
}

Result<std::int64_t> GgufHeader::integer_or(std::string_view key, std::int64_t low,
                                            std::int64_t high, std::int64_t absent) const {
  return find(key) ? integer(key, low, high) : Result<std::int64_t>(absent);
}

Result<double> GgufHeader::real_or(std::string_view key, double absent) const {
  const GgufValue* found = find(key);
  if (!found) return absent;
  const auto* value = std::get_if<double>(&found->value);
  if (!value) return wrong_kind(file_, key, *found, "a float");
  if (!std::isfinite(*value))
    return error(StatusCode::malformed, "{}: {}: {} is not finite", file_, key, *value);
  return *value;
}

Result<bool> GgufHeader::boolean_or(std::string_view key, bool absent) const {
  const GgufValue* found = find(key);
  if (!found) return absent;
  const auto* value = std::get_if<bool>(&found->value);
  if (!value) return wrong_kind(file_, key, *found, "a boolean");
  return *value;
}

Result<std::string_view> GgufHeader::string(std::string_view key) const {
  const GgufValue* found = find(key);
  if (!found) return missing(file_, key);
  const auto* value = std::get_if<std::string_view>(&found->value);
  if (!value) return wrong_kind(file_, key, *found, "a string");
  return *value;
}

Result<std::string_view> GgufHeader::string_or(std::string_view key,
                                               std::string_view absent) const {
  return find(key) ? string(key) : Result<std::string_view>(absent);
}

Result<std::vector<std::string_view>> GgufHeader::strings(std::string_view key) const {
  const GgufValue* found = find(key);
  if (!found) return std::vector<std::string_view>();
  const auto* value = std::get_if<GgufValue::Strings>(&found->value);
  if (!value) return wrong_kind(file_, key, *found, "an array of strings");
  return *value;
}

Result<std::vector<float>> GgufHeader::reals(std::string_view key) const {
  const GgufValue* found = find(key);
  if (!found) return std::vector<float>();
  const auto* value = std::get_if<std::vector<double>>(&found->value);
  if (!value) return wrong_kind(file_, key, *found, "an array of floats");
  std::vector<float> items(value->size());
  for (std::size_t i = 0; i < items.size(); ++i) {
    items[i] = static_cast<float>((*value)[i]);
    if (!std::isfinite(items[i]))
      return error(StatusCode::malformed, "{}: {}: item {} is {}, not a finite 32-bit float", file_,
                   key, i, (*value)[i]);
  }
  return items;
}

Result<std::vector<std::int64_t>> GgufHeader::integers(std::string_view key) const {
  const GgufValue* found = find(key);
  if (!found) return std::vector<std::int64_t>();
  if (const auto* value = std::get_if<std::vector<std::int64_t>>(&found->value)) return *value;
  if (const auto* value = std::get_if<std::vector<bool>>(&found->value))
    return std::vector<std::int64_t>(value->begin(), value->end());
  if (found->value.index() <= 1) {
    const Result<std::int64_t> value = integer(key, INT64_MIN, INT64_MAX);
    if (!value) return value.status();
    return std::vector<std::int64_t>{*value};
  }
  return wrong_kind(file_, key, *found, "an array of integers");
}

}  // namespace quire::format
