#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <quire/status.h>

namespace quire {

class Json;
using JsonArray = std::vector<Json>;
using JsonMember = std::pair<std::string, Json>;
using JsonObject = std::vector<JsonMember>;  // in the order of the text

// A JSON value. Strings are UTF-8; numbers are int64 where they are written as integers that fit.
class Json {
 public:
  Json() = default;  // null
  Json(std::nullptr_t) {}
  Json(bool v) : value_(v) {}
  Json(int v) : value_(std::int64_t{v}) {}
  Json(std::int64_t v) : value_(v) {}
  Json(double v) : value_(v) {}
  Json(std::string v) : value_(std::move(v)) {}
  Json(std::string_view v) : value_(std::string(v)) {}
  Json(const char* v) : value_(std::string(v)) {}
  Json(JsonArray v) : value_(std::move(v)) {}
  Json(JsonObject v) : value_(std::move(v)) {}

  bool is_null() const { return std::holds_alternative<std::monostate>(value_); }
  bool is_number() const { return integer() || real(); }
  const bool* boolean() const { return std::get_if<bool>(&value_); }
  const std::int64_t* integer() const { return std::get_if<std::int64_t>(&value_); }
  const double* real() const { return std::get_if<double>(&value_); }
  const std::string* string() const { return std::get_if<std::string>(&value_); }
  const JsonArray* array() const { return std::get_if<JsonArray>(&value_); }
  const JsonObject* object() const { return std::get_if<JsonObject>(&value_); }
  JsonArray* array() { return std::get_if<JsonArray>(&value_); }
  JsonObject* object() { return std::get_if<JsonObject>(&value_); }
  // An integer or a real as double; 0 for anything else.
  double number() const;
  // The member of that name, or null if there is none or this is no object.
  const Json* find(std::string_view key) const;
  // Replaces or appends a member; makes an object of a null value.
  void set(std::string_view key, Json value);

 private:
  std::variant<std::monostate, bool, std::int64_t, double, std::string, JsonArray, JsonObject>
      value_;
};

struct JsonLimits {
  std::size_t max_depth = 200;
  bool reject_duplicate_keys = true;
};

// Parses one JSON text (no comments, nothing after it but white space). Errors give the byte.
Result<Json> parse_json(std::string_view text, const JsonLimits& limits = {});
// Compact when indent is 0. Ill-formed UTF-8 becomes U+FFFD; NaN and infinities become null.
std::string dump_json(const Json& value, int indent = 0);

}  // namespace quire
