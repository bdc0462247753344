#include "base/json.h"

#include <algorithm>
#include <unordered_set>

#include <nlohmann/json.hpp>

#include "base/error.h"

namespace quire {
namespace {

using Library = nlohmann::ordered_json;

// Builds a Json from nlohmann's SAX events, keeping depth and keys within the limits.
class Builder : public nlohmann::json_sax<Library> {
 public:
  explicit Builder(const JsonLimits& limits) : limits_(limits) {}

  bool null() override { return add(Json()); }
  bool boolean(bool v) override { return add(Json(v)); }
  bool number_integer(number_integer_t v) override {
    return add(Json(static_cast<std::int64_t>(v)));
  }
  bool number_unsigned(number_unsigned_t v) override {
    if (v > static_cast<std::uint64_t>(INT64_MAX)) return add(Json(static_cast<double>(v)));
    return add(Json(static_cast<std::int64_t>(v)));
  }
  bool number_float(number_float_t v, const string_t&) override { return add(Json(v)); }
  bool string(string_t& v) override { return add(Json(std::move(v))); }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return open(Json(JsonObject{})); }
  bool start_array(std::size_t) override { return open(Json(JsonArray{})); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& v) override {
    Level& level = stack_.back();
    if (limits_.reject_duplicate_keys && !level.keys.insert(v).second) {
      status = error(StatusCode::malformed, "JSON: key \"{:.100}\" appears twice in one object", v);
      return false;
    }
    level.key = std::move(v);
    return true;
  }
  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception& e) override {
    std::string what = e.what();
    const std::size_t cut = what.find("] ");
    if (cut != std::string::npos) what = what.substr(cut + 2);
    status = error(StatusCode::malformed, "JSON: byte {}: {}", position, what);
    return false;
  }

  Json root;
  Status status;

 private:
  struct Level {
    Json value;
    std::string key;
    std::unordered_set<std::string> keys;
  };

  bool add(Json value) {
    if (stack_.empty()) {
      root = std::move(value);
      return true;
    }
    Level& level = stack_.back();
    if (JsonArray* array = level.value.array()) {
      array->push_back(std::move(value));
    } else {
      level.value.object()->emplace_back(std::move(level.key), std::move(value));
    }
    return true;
  }
  bool open(Json value) {
    if (stack_.size() >= limits_.max_depth) {
      status =
          error(StatusCode::malformed, "JSON: nested deeper than {} levels", limits_.max_depth);
      return false;
    }
    stack_.push_back({std::move(value), {}, {}});
    return true;
  }
  bool close() {
    Json value = std::move(stack_.back().value);
    stack_.pop_back();
    return add(std::move(value));
  }

  JsonLimits limits_;
  std::vector<Level> stack_;
};

Library to_library(const Json& value) {
  if (const bool* v = value.boolean()) return *v;
  if (const std::int64_t* v = value.integer()) return *v;
  if (const double* v = value.real()) return *v;
  if (const std::string* v = value.string()) return *v;
  if (const JsonArray* v = value.array()) {
    Library out = Library::array();
    for (const Json& item : *v) out.push_back(to_library(item));
    return out;
  }
  if (const JsonObject* v = value.object()) {
    Library out = Library::object();
    // Appended to the vector beneath: operator[] would search all members before each one.
    Library::object_t::Container& members = out.get_ref<Library::object_t&>();
    members.reserve(v->size());
    for (const JsonMember& member : *v)
      members.emplace_back(member.first, to_library(member.second));
    return out;
  }
  return nullptr;
}

}  // namespace

double Json::number() const {
  if (const std::int64_t* v = integer()) return static_cast<double>(*v);
  if (const double* v = real()) return *v;
  return 0;
}

const Json* Json::find(std::string_view key) const {
  const JsonObject* members = object();
  if (!members) return nullptr;
  auto at = std::find_if(members->begin(), members->end(),
                         [&](const JsonMember& member) { return member.first == key; });
  return at == members->end() ? nullptr : &at->second;
}

void Json::set(std::string_view key, Json value) {
  if (is_null()) value_ = JsonObject{};
  JsonObject* members = object();
  if (!members) return;
  for (JsonMember& member : *members) {
    if (member.first == key) {
      member.second = std::move(value);
      return;
    }
  }
  members->emplace_back(std::string(key), std::move(value));
}

Result<Json> parse_json(std::string_view text, const JsonLimits& limits) {
  return guarded("JSON", [&]() -> Result<Json> {
    Builder builder(limits);
    const bool ok = Library::sax_parse(text.begin(), text.end(), &builder);
    if (ok) return std::move(builder.root);
    if (!builder.status.ok()) return builder.status;
    return Status(StatusCode::malformed, "JSON: not readable");
  });
}

std::string dump_json(const Json& value, int indent) {
  return to_library(value).dump(indent > 0 ? indent : -1, ' ', false,
                                Library::error_handler_t::replace);
}

}  // namespace quire
