#include "text/jinja/variables.h"

namespace quire::text::jinja {

Value from_json(Runtime& runtime, const Json& json, Trust trust) {
  Runtime::Depth depth(runtime);
  if (auto boolean = json.boolean()) return *boolean;
  if (auto integer = json.integer()) return *integer;
  if (auto real = json.real()) return *real;
  if (auto string = json.string()) {
    runtime.reserve_memory(string->size());
    return runtime.text(*string, trust);
  }
  if (auto array = json.array()) {
    runtime.reserve_values(array->size());
    Values items;
    items.reserve(array->size());
    for (const Json& element : *array) items.push_back(from_json(runtime, element, trust));
    return runtime.list(std::move(items));
  }
  if (auto object = json.object()) {
    runtime.reserve_values(2 * object->size());
    std::vector<std::pair<Value, Value>> members;
    members.reserve(object->size());
    for (const auto& [key, value] : *object) {
      members.emplace_back(runtime.text(key, trust), from_json(runtime, value, trust));
    }
    return runtime.dict(std::move(members));
  }
  return None{};
}

}  // namespace quire::text::jinja
