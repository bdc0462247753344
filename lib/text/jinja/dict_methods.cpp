#include "text/jinja/access.h"
#include "text/jinja/arguments.h"
#include "text/jinja/mapping.h"
#include "text/jinja/methods.h"
#include "text/jinja/operators.h"

namespace quire::text::jinja {

Value items_of(Runtime& runtime, const DictObject& dict, Sequence kind) {
  runtime.reserve_values(3 * dict.members.size());
  Values items;
  for (const auto& [key, value] : dict.members) items.push_back(runtime.tuple({key, value}));
  return runtime.list(std::move(items), kind);
}

namespace {

Value get(Runtime& runtime, const Value& self, Arguments& arguments) {
  arguments.allow_at_most(2);
  const Value* value = find_member(runtime, *self.dict(), arguments.require(0, "key"));
  const Value* absent = arguments.find(1, "default");
  return value ? *value : absent ? *absent : Value();
}

Value items(Runtime& runtime, const Value& self, Arguments& arguments) {
  arguments.allow_at_most(0);
  return items_of(runtime, *self.dict(), Sequence::view);
}

Value keys(Runtime& runtime, const Value& self, Arguments& arguments) {
  arguments.allow_at_most(0);
  return runtime.list(iterate(runtime, self), Sequence::view);
}

Value values(Runtime& runtime, const Value& self, Arguments& arguments) {
  arguments.allow_at_most(0);
  const auto& members = self.dict()->members;
  runtime.reserve_values(members.size());
  Values result;
  for (const auto& [key, value] : members) result.push_back(value);
  return runtime.list(std::move(result), Sequence::view);
}

Value copy(Runtime&, const Value& self, Arguments& arguments) {
  arguments.allow_at_most(0);
  return self;  // a value never changes
}

Value count_in_list(Runtime& runtime, const Value& self, Arguments& arguments) {
  std::int64_t count = 0;
  for (const Value& element : self.list()->items) {
    count += equal(runtime, element, arguments.require(0, "value"));
  }
  return count;
}

Value index_in_list(Runtime& runtime, const Value& self, Arguments& arguments) {
  const Values& items = self.list()->items;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (equal(runtime, items[i], arguments.require(0, "value")))
      return static_cast<std::int64_t>(i);
  }
  fail_value("the value is not in the list");
}

// Templates are rendered with values that cannot change, as in a sandbox.
Value refuse_change(Runtime&, const Value& self, Arguments& arguments) {
  fail_value("'{}' would change a {}, which templates may not", arguments.callee, type_name(self));
}

}  // namespace

Method find_dict_method(std::string_view name) {
  if (name == "get") return get;
  if (name == "items") return items;
  if (name == "keys") return keys;
  if (name == "values") return values;
  if (name == "copy") return copy;
  for (std::string_view changing : {"pop", "update", "setdefault", "clear", "popitem"}) {
    if (name == changing) return refuse_change;
  }
  return nullptr;
}

Method find_list_method(std::string_view name) {
  if (name == "count") return count_in_list;
  if (name == "index") return index_in_list;
  if (name == "copy") return copy;
  for (std::string_view changing :
       {"append", "extend", "insert", "pop", "remove", "clear", "sort", "reverse"}) {
    if (name == changing) return refuse_change;
  }
  return nullptr;
}

}  // namespace quire::text::jinja
