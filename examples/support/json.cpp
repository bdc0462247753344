#include "support/json.h"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <utility>

#include <nlohmann/json.hpp>

#include "support/files.h"

namespace examples {
namespace {

using Library = nlohmann::ordered_json;

constexpr int kMaxDepth = 200;

quire::Status malformed(std::string message) {
  return quire::Status(quire::StatusCode::malformed, std::move(message));
}

bool check_depth(int depth, Library::parse_event_t, Library&) {
  if (depth > kMaxDepth) throw std::runtime_error("nested deeper than 200 levels");
  return true;
}

// Where the `count`-th byte is.
std::string place_of(std::string_view text, std::size_t count, std::size_t first_line) {
  const std::string_view before = text.substr(0, count > 0 ? count - 1 : 0);
  const std::size_t line_start = before.rfind('\n') + 1;  // npos + 1 is 0
  const auto lines = static_cast<std::size_t>(std::count(before.begin(), before.end(), '\n'));
  return "line " + std::to_string(first_line + lines) + ", column " +
         std::to_string(before.size() - line_start + 1);
}

// Integers are of the type that the parser gives to the same digits.
Library integer_of(std::int64_t value) {
  if (value < 0) return value;
  return static_cast<std::uint64_t>(value);
}

}  // namespace

// The library's value is copied and moved with parentheses only: it takes braces around one for an
// array.
struct Json::Value {
  explicit Value(Library value) : library(std::move(value)) {}

  static Json wrap(Library value) {
    if (value.is_null()) return nullptr;
    return Json(std::make_unique<Value>(std::move(value)));
  }
  static Library unwrap(Json json) {
    return json.value_ ? std::move(json.value_->library) : Library();
  }

  Library library;
};

Json::Json() noexcept = default;
Json::Json(std::unique_ptr<Value> value) noexcept : value_(std::move(value)) {}
Json::Json(bool value) : value_(std::make_unique<Value>(value)) {}
Json::Json(std::int64_t value) : value_(std::make_unique<Value>(integer_of(value))) {}
Json::Json(std::uint64_t value) : value_(std::make_unique<Value>(value)) {}
Json::Json(double value) : value_(std::make_unique<Value>(value)) {}
Json::Json(const char* value) : Json(std::string(value)) {}
Json::Json(std::string value) : value_(std::make_unique<Value>(std::move(value))) {}
Json::Json(const std::vector<std::int32_t>& values) : value_(std::make_unique<Value>(values)) {}
Json::Json(const std::vector<std::string>& values) : value_(std::make_unique<Value>(values)) {}
Json::Json(std::initializer_list<Member> members) : Json(object()) {
  for (const Member& member : members) set(member.name, member.value);
}

Json Json::object() {
  return Value::wrap(Library::object());
}

Json Json::array(std::initializer_list<Json> elements) {
  Json list = Value::wrap(Library::array());
  for (const Json& element : elements) list.push_back(element);
  return list;
}

Json::Json(const Json& other)
    : value_(other.value_ ? std::make_unique<Value>(*other.value_) : nullptr) {}
Json::Json(Json&& other) noexcept = default;
Json& Json::operator=(const Json& other) {
  return *this = Json(other);
}
Json& Json::operator=(Json&& other) noexcept = default;
Json::~Json() = default;

bool Json::is_null() const {
  return !value_;
}
bool Json::is_object() const {
  return value_ && value_->library.is_object();
}
bool Json::is_array() const {
  return value_ && value_->library.is_array();
}

std::optional<std::string> Json::string() const {
  if (!value_ || !value_->library.is_string()) return std::nullopt;
  return value_->library.get<std::string>();
}

std::optional<bool> Json::boolean() const {
  if (!value_ || !value_->library.is_boolean()) return std::nullopt;
  return value_->library.get<bool>();
}

std::optional<std::int64_t> Json::integer() const {
  constexpr std::uint64_t kMax = std::numeric_limits<std::int64_t>::max();
  if (!value_ || !value_->library.is_number_integer() || natural() > kMax) return std::nullopt;
  return value_->library.get<std::int64_t>();
}

std::optional<std::uint64_t> Json::natural() const {
  if (!value_ || !value_->library.is_number_unsigned()) return std::nullopt;
  return value_->library.get<std::uint64_t>();
}

std::optional<double> Json::number() const {
  if (!value_ || !value_->library.is_number()) return std::nullopt;
  return value_->library.get<double>();
}

std::size_t Json::size() const {
  return is_object() || is_array() ? value_->library.size() : 0;
}

bool Json::contains(const std::string& name) const {
  return is_object() && value_->library.contains(name);
}

Json Json::operator[](const std::string& name) const {
  return contains(name) ? Value::wrap(value_->library.at(name)) : Json();
}

Json Json::operator[](std::size_t index) const {
  return is_array() && index < size() ? Value::wrap(value_->library.at(index)) : Json();
}

std::vector<Json> Json::elements() const {
  std::vector<Json> all;
  if (!is_array()) return all;
  all.reserve(size());
  for (const Library& element : value_->library) all.push_back(Value::wrap(element));
  return all;
}

std::vector<Json::Member> Json::members() const {
  std::vector<Member> all;
  if (!is_object()) return all;
  all.reserve(size());
  for (const auto& [name, value] : value_->library.items()) {
    all.push_back({name, Value::wrap(value)});
  }
  return all;
}

void Json::set(const std::string& name, Json value) {
  if (!is_object()) *this = object();
  value_->library[name] = Value::unwrap(std::move(value));
}

void Json::update(const Json& other) {
  if (!is_object()) *this = object();
  for (Member& member : other.members()) set(member.name, std::move(member.value));
}

void Json::push_back(Json value) {
  if (!is_array()) *this = array();
  value_->library.push_back(Value::unwrap(std::move(value)));
}

void Json::erase(const std::string& name) {
  if (is_object()) value_->library.erase(name);
}

quire::Result<Json> parse_json(std::string_view text, std::size_t first_line) {
  try {
    return Json::Value::wrap(Library::parse(text, check_depth));
  } catch (const Library::parse_error& error) {
    const std::string_view message = error.what();  // "[...] parse error at ...: what is wrong"
    const std::size_t wrong = message.find(": ");
    return malformed("not JSON: " + place_of(text, error.byte, first_line) +
                     std::string(message.substr(std::min(wrong, message.size()))));
  } catch (const std::exception& error) {
    return malformed(std::string("not JSON: ") + error.what());
  }
}

quire::Result<Json> read_json_file(const std::string& path) {
  const quire::Result<std::string> text = read_file(path);
  if (!text) return text.status();
  quire::Result<Json> value = parse_json(*text);
  if (!value) return malformed(path + ": " + value.status().message());
  return value;
}

std::string to_text(const Json& value) {
  if (value.is_null()) return "null";
  return value.value_->library.dump(-1, ' ', false, Library::error_handler_t::replace);
}

}  // namespace examples
