#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja/failure.h"
#include "text/jinja/value.h"

namespace quire::text::jinja {

// The arguments of a call, as written: by position, then by name.
struct Arguments {
  std::string_view callee;  // for messages
  Values positional;
  std::vector<std::pair<std::string_view, Value>> named;

  // The argument at that position or of that name; null if it was not given.
  const Value* find(std::size_t position, std::string_view name) const {
    if (position < positional.size()) return &positional[position];
    for (const auto& [given, value] : named) {
      if (given == name) return &value;
    }
    return nullptr;
  }
  const Value& require(std::size_t position, std::string_view name) const {
    const Value* value = find(position, name);
    if (!value) fail_value("{}() needs the argument '{}'", callee, name);
    return *value;
  }
  void allow_at_most(std::size_t count) const {
    if (positional.size() + named.size() > count) {
      fail_value("{}() takes at most {} arguments, {} given", callee, count,
                 positional.size() + named.size());
    }
  }
};

}  // namespace quire::text::jinja
