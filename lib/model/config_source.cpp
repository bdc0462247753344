#include "model/config_source.h"

#include <cmath>

#include "base/error.h"

namespace quire::model {

ConfigSource::ConfigSource(const format::ModelFiles& files) : files_(files) {
  if (const format::GgufHeader* header = files_.gguf()) {
    if (auto name = header->string("general.architecture")) prefix_ = std::string(*name) + ".";
  }
}

Result<std::string> ConfigSource::architecture() const {
  if (const format::GgufHeader* header = files_.gguf()) {
    auto name = header->string("general.architecture");
    if (!name) return name.status();
    return std::string(*name);
  }
  const Json* type = json({"", "model_type"});
  if (!type || !type->string()) return wrong({"", "model_type"}, "nothing", "a string");
  return *type->string();
}

std::string ConfigSource::gguf_key(Key key) const {
  return prefix_ + std::string(key.gguf);
}

const Json* ConfigSource::json(Key key) const {
  const Json* at = files_.config();
  std::string_view path = key.hf;
  if (path.empty()) return nullptr;
  while (at && !path.empty()) {
    const std::size_t slash = path.find('/');
    at = at->find(path.substr(0, slash));
    path = slash == std::string_view::npos ? std::string_view() : path.substr(slash + 1);
  }
  return at && !at->is_null() ? at : nullptr;
}

Status ConfigSource::wrong(Key key, std::string_view found, std::string_view wanted) const {
  const std::string name =
      is_gguf() ? "key " + gguf_key(key) : "config.json: " + std::string(key.hf);
  return error(StatusCode::malformed, "{}: {}: found {}, wanted {}", file(), name, found, wanted);
}

bool ConfigSource::has(Key key) const {
  if (is_gguf()) return !key.gguf.empty() && files_.gguf()->find(gguf_key(key)) != nullptr;
  return json(key) != nullptr;
}

Result<std::int64_t> ConfigSource::integer(Key key, std::int64_t low, std::int64_t high) const {
  if (!has(key)) return wrong(key, "nothing", fmt::format("an integer from {} to {}", low, high));
  return integer_or(key, low, high, low);
}

Result<std::int64_t> ConfigSource::integer_or(Key key, std::int64_t low, std::int64_t high,
                                              std::int64_t absent) const {
  if (!has(key)) return absent;
  if (is_gguf()) return files_.gguf()->integer(gguf_key(key), low, high);
  const Json* value = json(key);
  const std::int64_t* number = value->integer();
  if (!number || *number < low || *number > high) {
    return wrong(key, dump_json(*value), fmt::format("an integer from {} to {}", low, high));
  }
  return *number;
}

Result<std::vector<std::int64_t>> ConfigSource::per_layer(Key key, std::int64_t low,
                                                          std::int64_t high,
                                                          std::int64_t layers) const {
  if (is_gguf()) {
    if (const format::GgufValue* value = has(key) ? files_.gguf()->find(gguf_key(key)) : nullptr) {
      if (const auto* list = std::get_if<std::vector<std::int64_t>>(&value->value)) {
        if (static_cast<std::int64_t>(list->size()) != layers) {
          return wrong(key, fmt::format("{} values", list->size()),
                       fmt::format("{}, one a layer", layers));
        }
        for (std::int64_t v : *list) {
          if (v < low || v > high) {
            return wrong(key, fmt::format("{}", v),
                         fmt::format("an integer from {} to {}", low, high));
          }
        }
        return *list;
      }
    }
  }
  auto one = integer(key, low, high);
  if (!one) return one.status();
  return std::vector<std::int64_t>(static_cast<std::size_t>(layers), *one);
}

Result<double> ConfigSource::real_or(Key key, double absent) const {
  if (!has(key)) return absent;
  if (is_gguf()) {
    // Lengths are stored as integers, ratios as floats.
    const auto& value = files_.gguf()->find(gguf_key(key))->value;
    if (const auto* n = std::get_if<std::uint64_t>(&value)) return static_cast<double>(*n);
    if (const auto* n = std::get_if<std::int64_t>(&value)) return static_cast<double>(*n);
    return files_.gguf()->real_or(gguf_key(key), absent);
  }
  const Json* value = json(key);
  if (!value->is_number() || !std::isfinite(value->number())) {
    return wrong(key, dump_json(*value), "a finite number");
  }
  return value->number();
}

Result<bool> ConfigSource::boolean_or(Key key, bool absent) const {
  if (!has(key)) return absent;
  if (is_gguf()) return files_.gguf()->boolean_or(gguf_key(key), absent);
  const Json* value = json(key);
  if (!value->boolean()) return wrong(key, dump_json(*value), "true or false");
  return *value->boolean();
}

Result<std::string> ConfigSource::string_or(Key key, std::string_view absent) const {
  if (!has(key)) return std::string(absent);
  if (is_gguf()) {
    auto value = files_.gguf()->string(gguf_key(key));
    if (!value) return value.status();
    return std::string(*value);
  }
  const Json* value = json(key);
  if (!value->string()) return wrong(key, dump_json(*value), "a string");
  return *value->string();
}

Result<std::vector<double>> ConfigSource::reals(Key key) const {
  std::vector<double> list;
  if (!has(key)) return list;
  if (is_gguf()) {
    auto values = files_.gguf()->reals(gguf_key(key));
    if (!values) return values.status();
    list.assign(values->begin(), values->end());
    return list;
  }
  const Json* value = json(key);
  if (!value->array()) return wrong(key, dump_json(*value), "a list of numbers");
  for (const Json& item : *value->array()) {
    if (!item.is_number() || !std::isfinite(item.number())) {
      return wrong(key, dump_json(item), "a finite number");
    }
    list.push_back(item.number());
  }
  return list;
}

Result<std::vector<std::string>> ConfigSource::strings(Key key) const {
  std::vector<std::string> list;
  if (!has(key)) return list;
  if (is_gguf()) {
    auto values = files_.gguf()->strings(gguf_key(key));
    if (!values) return values.status();
    list.assign(values->begin(), values->end());
    return list;
  }
  const Json* value = json(key);
  if (!value->array()) return wrong(key, dump_json(*value), "a list of strings");
  for (const Json& item : *value->array()) {
    if (!item.string()) return wrong(key, dump_json(item), "a string");
    list.push_back(*item.string());
  }
  return list;
}

}  // namespace quire::model
