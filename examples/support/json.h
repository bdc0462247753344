#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <quire/status.h>

namespace examples {

// A JSON value. Copies are deep, and reading gives values, never references. An object is written
// in braces: Json{{"name", "x"}, {"sizes", {{"min", 1}, {"max", 2}}}}. Its members keep the order
// in which they were added: chat templates print them in it. Of the JSON library only the source
// knows, since its header takes seconds to compile.
class Json {
 public:
  struct Member;

  Json() noexcept;  // null
  Json(std::nullptr_t) noexcept : Json() {}
  Json(bool value);
  Json(int value) : Json(std::int64_t{value}) {}
  Json(std::int64_t value);
  Json(std::uint64_t value);
  Json(double value);  // written with the digits that tell it from other doubles
  Json(const char* value);
  Json(std::string value);
  Json(const std::vector<std::int32_t>& values);
  Json(const std::vector<std::string>& values);
  Json(std::initializer_list<Member> members);  // an object, of any number of members
  Json(const void*) = delete;                   // no pointer is taken for a bool
  static Json object();
  static Json array(std::initializer_list<Json> elements = {});

  Json(const Json& other);
  Json(Json&& other) noexcept;  // leaves null
  Json& operator=(const Json& other);
  Json& operator=(Json&& other) noexcept;
  ~Json();

  bool is_null() const;
  bool is_object() const;
  bool is_array() const;
  // Unset where the value is of another kind. `integer` and `natural` are of numbers written
  // without fraction and exponent that fit; `natural` of those without a sign; `number` is of any.
  std::optional<std::string> string() const;
  std::optional<bool> boolean() const;
  std::optional<std::int64_t> integer() const;
  std::optional<std::uint64_t> natural() const;
  std::optional<double> number() const;

  // Members or elements; 0 of other kinds, which have none.
  std::size_t size() const;
  bool contains(const std::string& name) const;
  Json operator[](const std::string& name) const;  // null if there is none
  Json operator[](std::size_t index) const;        // null if there is none
  std::vector<Json> elements() const;
  std::vector<Member> members() const;

  // `set` and `update` make an object of a value that is none, `push_back` an array.
  void set(const std::string& name, Json value);
  void update(const Json& other);  // sets all members of `other`
  void push_back(Json value);
  void erase(const std::string& name);  // if it is there

 private:
  struct Value;
  explicit Json(std::unique_ptr<Value> value) noexcept;
  friend quire::Result<Json> parse_json(std::string_view text, std::size_t first_line);
  friend std::string to_text(const Json& value);

  std::unique_ptr<Value> value_;  // none: null
};

struct Json::Member {
  std::string name;
  Json value;
};

// At most 200 levels inside the outermost value. Messages count lines from `first_line`.
quire::Result<Json> parse_json(std::string_view text, std::size_t first_line = 1);
quire::Result<Json> read_json_file(const std::string& path);
// Compact; ill-formed UTF-8 becomes U+FFFD.
std::string to_text(const Json& value);

}  // namespace examples
