#include <algorithm>
#include <cmath>

#include "text/jinja/access.h"
#include "text/jinja/mapping.h"
#include "text/jinja/operators.h"

namespace quire::text::jinja {

std::optional<std::int64_t> as_integer(const Value& value) {
  if (auto integer = value.get_if<std::int64_t>()) return *integer;
  if (auto boolean = value.get_if<bool>()) return *boolean ? 1 : 0;
  return std::nullopt;
}

std::optional<double> as_real(const Value& value) {
  if (auto real = value.get_if<double>()) return *real;
  if (auto integer = as_integer(value)) return static_cast<double>(*integer);
  return std::nullopt;
}

bool is_number(const Value& value) {
  return as_real(value).has_value();
}

bool truth(const Value& value) {
  if (value.is_none() || value.is_undefined()) return false;
  if (auto boolean = value.get_if<bool>()) return *boolean;
  if (auto integer = value.get_if<std::int64_t>()) return *integer != 0;
  if (auto real = value.get_if<double>()) return *real != 0;
  if (auto text = value.text()) return !text->empty();
  if (auto list = value.list()) return !list->items.empty();
  if (auto dict = value.dict()) return !dict->members.empty();
  if (auto loop = value.pointer<LoopObject>()) return !loop->items.empty();
  return true;
}

namespace {

bool equal_lists(Runtime& runtime, const ListObject& a, const ListObject& b) {
  if (a.kind != b.kind || a.items.size() != b.items.size()) return false;
  for (std::size_t i = 0; i < a.items.size(); ++i) {
    if (!equal(runtime, a.items[i], b.items[i])) return false;
  }
  return true;
}

bool equal_dicts(Runtime& runtime, const DictObject& a, const DictObject& b) {
  if (a.members.size() != b.members.size()) return false;
  for (const auto& [key, value] : a.members) {
    const Value* other = find_member(runtime, b, key);
    if (!other || !equal(runtime, value, *other)) return false;
  }
  return true;
}

template <class T>
bool same_pointer(const Value& a, const Value& b) {
  return a.pointer<T>() && a.pointer<T>() == b.pointer<T>();
}

int three_way(auto a, auto b) {
  return a < b ? -1 : b < a ? 1 : 0;
}

}  // namespace

bool equal(Runtime& runtime, const Value& a, const Value& b) {
  Runtime::Depth depth(runtime);
  runtime.step();
  if (auto text = a.text()) {
    auto other = b.text();
    if (!other || text->size() != other->size()) return false;
    runtime.charge_bytes(text->size());
    return text->view() == other->view();
  }
  if (is_number(a)) {
    if (!is_number(b)) return false;
    auto integer = as_integer(a), other = as_integer(b);
    return integer && other ? *integer == *other : *as_real(a) == *as_real(b);
  }
  if (a.is_none()) return b.is_none();
  if (a.is_undefined()) return b.is_undefined();
  if (a.list() && b.list()) return equal_lists(runtime, *a.list(), *b.list());
  if (a.dict() && b.dict()) return equal_dicts(runtime, *a.dict(), *b.dict());
  return same_pointer<NamespaceObject>(a, b) || same_pointer<MacroObject>(a, b) ||
         same_pointer<GeneratorObject>(a, b) || same_pointer<LoopObject>(a, b) ||
         (a.is<Function>() && b.is<Function>() && *a.get_if<Function>() == *b.get_if<Function>());
}

int compare(Runtime& runtime, const Value& a, const Value& b, const char* symbol) {
  Runtime::Depth depth(runtime);
  runtime.step();
  auto text = a.text(), other_text = b.text();
  if (text && other_text) {  // the order of UTF-8 bytes is the order of code points
    runtime.charge_bytes(std::min(text->size(), other_text->size()));
    return three_way(text->view(), other_text->view());
  }
  if (is_number(a) && is_number(b)) {
    auto integer = as_integer(a), other = as_integer(b);
    return integer && other ? three_way(*integer, *other) : three_way(*as_real(a), *as_real(b));
  }
  if (a.list() && b.list() && a.list()->kind == b.list()->kind) {
    const Values &left = a.list()->items, &right = b.list()->items;
    for (std::size_t i = 0; i < std::min(left.size(), right.size()); ++i) {
      if (!equal(runtime, left[i], right[i])) return compare(runtime, left[i], right[i], symbol);
    }
    return three_way(left.size(), right.size());
  }
  if (a.is_undefined()) fail_value("{}", (*a.get_if<Undefined>()->reason).view());
  if (b.is_undefined()) fail_value("{}", (*b.get_if<Undefined>()->reason).view());
  fail_value("'{}' not supported between instances of '{}' and '{}'", symbol, type_name(a),
             type_name(b));
}

bool contains(Runtime& runtime, const Value& container, const Value& item) {
  if (auto text = container.text()) {
    auto part = item.text();
    if (!part) {
      fail_value("'in <string>' requires string as left operand, not {}", type_name(item));
    }
    return runtime.find(text->view(), part->view()) != std::string_view::npos;
  }
  if (auto dict = container.dict()) return find_member(runtime, *dict, item) != nullptr;
  if (auto list = container.list()) {
    for (const Value& element : list->items) {
      if (equal(runtime, element, item)) return true;
    }
    return false;
  }
  for (const Value& element : iterate(runtime, container)) {
    if (equal(runtime, element, item)) return true;
  }
  return false;
}

}  // namespace quire::text::jinja
