#include <algorithm>
#include <utility>

#include "text/jinja/access.h"
#include "text/jinja/filters.h"
#include "text/jinja/methods.h"
#include "text/jinja/operators.h"
#include "text/jinja/unicode.h"

namespace quire::text::jinja {

namespace {

Value length_filter(Runtime& runtime, const Value& value, Arguments&) {
  if (auto text = value.text()) runtime.charge_bytes(text->size());
  auto size = length(value);
  if (!size) fail_value("object of type '{}' has no len()", type_name(value));
  return static_cast<std::int64_t>(*size);
}

Value list(Runtime& runtime, const Value& value, Arguments&) {
  return runtime.list(iterate(runtime, value));
}

Value first(Runtime& runtime, const Value& value, Arguments&) {
  if (value.text())
    return value.text()->empty() ? runtime.undefined("No first item, sequence was empty.")
                                 : item(runtime, value, std::int64_t{0});
  Values items = iterate(runtime, value);
  return items.empty() ? runtime.undefined("No first item, sequence was empty.") : items.front();
}

Value last(Runtime& runtime, const Value& value, Arguments&) {
  if (value.pointer<GeneratorObject>()) fail_value("'generator' object is not reversible");
  if (value.text() && !value.text()->empty()) return item(runtime, value, std::int64_t{-1});
  Values items = iterate(runtime, value);
  return items.empty() ? runtime.undefined("No last item, sequence was empty.") : items.back();
}

Value join_filter(Runtime& runtime, const Value& value, Arguments& arguments) {
  arguments.allow_at_most(2);
  TracedText separator;
  if (arguments.find(0, "d")) separator = require_text(arguments, 0, "d");
  Values items = iterate(runtime, value);
  if (const Value* path = find_given(arguments, 1, "attribute")) {
    for (Value& element : items) element = attribute_path(runtime, element, *path);
  }
  return join(runtime, items, separator);
}

Value default_filter(Runtime& runtime, const Value& value, Arguments& arguments) {
  arguments.allow_at_most(2);
  bool replaced =
      value.is_undefined() || (truth_or(arguments, 1, "boolean", false) && !truth(value));
  if (!replaced) return value;
  const Value* other = arguments.find(0, "default_value");
  return other ? *other : runtime.text("");
}

Value items(Runtime& runtime, const Value& value, Arguments&) {
  if (value.is_undefined()) return runtime.generator({});
  if (!value.dict()) fail_value("Can only get item pairs from a mapping.");
  Value pairs = items_of(runtime, *value.dict(), Sequence::view);
  return runtime.generator(pairs.list()->items);
}

Value reverse(Runtime& runtime, const Value& value, Arguments&) {
  Values items = iterate(runtime, value);
  std::reverse(items.begin(), items.end());
  if (value.text()) return join(runtime, items, TracedText());
  return runtime.generator(std::move(items));
}

Value sum(Runtime& runtime, const Value& value, Arguments& arguments) {
  const Value* path = find_given(arguments, 0, "attribute");
  const Value* start = arguments.find(1, "start");
  Value total = start ? *start : Value(std::int64_t{0});
  for (const Value& element : iterate(runtime, value)) {
    Value term = path ? attribute_path(runtime, element, *path) : element;
    total = binary(runtime, BinaryOperator::add, total, term);
  }
  return total;
}

Value batch(Runtime& runtime, const Value& value, Arguments& arguments) {
  std::int64_t size = integer_or(arguments, 0, "linecount", 0);
  if (size < 1) fail_value("batch(): linecount must be at least 1, not {}", size);
  const Value* fill = find_given(arguments, 1, "fill_with");
  Values batches, row;
  for (Value& element : iterate(runtime, value)) {
    row.push_back(std::move(element));
    if (static_cast<std::int64_t>(row.size()) < size) continue;
    batches.push_back(runtime.list(std::exchange(row, {})));
  }
  if (!row.empty()) {
    if (fill) {
      runtime.reserve_values(static_cast<std::size_t>(size));
      row.resize(static_cast<std::size_t>(size), *fill);
    }
    batches.push_back(runtime.list(std::move(row)));
  }
  return runtime.generator(std::move(batches));
}

Value attr(Runtime& runtime, const Value& value, Arguments& arguments) {
  Value name = arguments.require(0, "name");
  if (value.dict()) return runtime.undefined("a dict has no such attribute");
  return attribute(runtime, value, require_text(arguments, 0, "name").view());
}

constexpr std::pair<std::string_view, Filter> kFilters[] = {
    {"length", length_filter},
    {"count", length_filter},
    {"list", list},
    {"first", first},
    {"last", last},
    {"join", join_filter},
    {"default", default_filter},
    {"d", default_filter},
    {"items", items},
    {"reverse", reverse},
    {"sum", sum},
    {"batch", batch},
    {"attr", attr},
};

}  // namespace

Filter find_sequence_filter(std::string_view name) {
  for (const auto& [known, filter] : kFilters) {
    if (known == name) return filter;
  }
  return nullptr;
}

}  // namespace quire::text::jinja
