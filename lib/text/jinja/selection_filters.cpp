#include <utility>

#include "text/jinja/access.h"
#include "text/jinja/filters.h"
#include "text/jinja/methods.h"
#include "text/jinja/operators.h"
#include "text/jinja/tests.h"

namespace quire::text::jinja {

namespace {

// The arguments after the first `count`, for the filter or test that they name.
Arguments rest_of(const Arguments& arguments, std::size_t count) {
  Arguments rest{arguments.callee, {}, arguments.named};
  for (std::size_t i = count; i < arguments.positional.size(); ++i) {
    rest.positional.push_back(arguments.positional[i]);
  }
  return rest;
}

// As in Jinja, anything false (none, too) is an empty sequence here.
Values elements_of(Runtime& runtime, const Value& value) {
  return truth(value) ? iterate(runtime, value) : Values();
}

// map('filter', ...) or map(attribute='path', default=...).
Value map(Runtime& runtime, const Value& value, Arguments& arguments) {
  Values results;
  if (arguments.positional.empty()) {
    const Value& path = arguments.require(SIZE_MAX, "attribute");
    const Value* absent = arguments.find(SIZE_MAX, "default");
    for (const Value& element : elements_of(runtime, value)) {
      Value found = attribute_path(runtime, element, path);
      results.push_back(found.is_undefined() && absent ? *absent : found);
    }
    return runtime.generator(std::move(results));
  }
  std::string_view name = require_text(arguments, 0, "name").view();
  Arguments rest = rest_of(arguments, 1);
  for (const Value& element : elements_of(runtime, value)) {
    runtime.step();
    results.push_back(apply_filter(runtime, name, element, rest));
  }
  return runtime.generator(std::move(results));
}

enum class Keep { passing, failing };

// select('test', ...) on elements; with `by_attribute`, selectattr('path', 'test', ...).
template <Keep keep, bool by_attribute>
Value select(Runtime& runtime, const Value& value, Arguments& arguments) {
  constexpr std::size_t kTest = by_attribute ? 1 : 0;
  Value path;
  if (by_attribute) path = arguments.require(0, "attribute");
  bool tested = arguments.positional.size() > kTest;
  std::string_view name = tested ? require_text(arguments, kTest, "test").view() : "";
  Arguments rest = rest_of(arguments, kTest + 1);
  Values kept;
  for (const Value& element : elements_of(runtime, value)) {
    runtime.step();
    Value subject = by_attribute ? attribute_path(runtime, element, path) : element;
    bool passes = tested ? apply_test(runtime, name, subject, rest) : truth(subject);
    if (passes == (keep == Keep::passing)) kept.push_back(element);
  }
  return runtime.generator(std::move(kept));
}

constexpr std::pair<std::string_view, Filter> kFilters[] = {
    {"map", map},
    {"select", select<Keep::passing, false>},
    {"reject", select<Keep::failing, false>},
    {"selectattr", select<Keep::passing, true>},
    {"rejectattr", select<Keep::failing, true>},
};

}  // namespace

Filter find_selection_filter(std::string_view name) {
  for (const auto& [known, filter] : kFilters) {
    if (known == name) return filter;
  }
  return nullptr;
}

}  // namespace quire::text::jinja
