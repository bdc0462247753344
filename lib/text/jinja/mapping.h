#pragma once

#include <cstddef>
#include <string_view>

#include "text/jinja/runtime.h"

namespace quire::text::jinja {

// Adds a member, or replaces the value of an equal key.
void insert_member(Runtime& runtime, DictObject& dict, Value key, Value value);
// Null if there is none.
const Value* find_member(Runtime& runtime, const DictObject& dict, const Value& key);
const Value* find_member(const DictObject& dict, std::string_view key);

}  // namespace quire::text::jinja
