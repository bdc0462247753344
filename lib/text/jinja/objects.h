#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "text/jinja/value.h"

namespace quire::text::jinja {

enum class Sequence {
  list,
  tuple,
  view  // what dict.items(), keys() and values() give: no index, not serialisable
};

struct ListObject {
  Sequence kind;
  Values items;
};

// What Jinja's lazy filters (map, select, ...) give: it can be read once, and is true even if
// empty.
struct GeneratorObject {
  Values items;
  bool consumed = false;
};

// Members in the order of insertion. Strings are found by hash, other keys by comparison.
struct DictObject {
  std::vector<std::pair<Value, Value>> members;
  std::unordered_multimap<std::size_t, std::size_t> index;  // hash of a string key -> member
};

struct NamespaceObject {
  std::vector<std::pair<std::string, Value>> members;
};

struct MacroObject {
  const MacroStatement* definition;
  Scope* scope;  // where it was defined
};

struct MethodObject {
  Value self;
  std::string_view name;
  Method method;
};

struct LoopObject {
  Values items;
  std::size_t index = 0;
  std::int64_t depth = 1;
  std::optional<Values> last_changed;
  const void* recursive = nullptr;  // the ForStatement, if the loop may call itself
  Scope* scope = nullptr;           // around the loop
};

// cycler() and joiner().
struct StatefulObject {
  enum class Kind { cycler, joiner } kind;
  Values items;
  std::size_t index = 0;
};

}  // namespace quire::text::jinja
