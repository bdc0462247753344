#pragma once

#include <optional>
#include <string_view>

#include "text/jinja/runtime.h"

namespace quire::text::jinja {

// object.name: an attribute or method, else an item; undefined if there is neither.
Value attribute(Runtime& runtime, const Value& object, std::string_view name);
// object[key]: an item, else (for a string key) an attribute.
Value item(Runtime& runtime, const Value& object, const Value& key);
// A path of names and numbers, "function.name", as the filters map, sort and selectattr take it.
Value attribute_path(Runtime& runtime, const Value& object, const Value& path);

// object[start:stop:step]; none where it was left out.
struct SliceBounds {
  Value start, stop, step;
};
Value slice(Runtime& runtime, const Value& object, const SliceBounds& bounds);

// What a `for` over the value yields. Uses a generator up.
Values iterate(Runtime& runtime, const Value& value);
// len(); nothing for what has no length.
std::optional<std::size_t> length(const Value& value);

// The methods of str, of dict and of list. Null if there is none of that name.
Method find_text_method(std::string_view name);
Method find_dict_method(std::string_view name);
Method find_list_method(std::string_view name);

}  // namespace quire::text::jinja
