#include "text/jinja/tests.h"

#include <utility>

#include "text/jinja/access.h"
#include "text/jinja/filters.h"
#include "text/jinja/methods.h"
#include "text/jinja/operators.h"

namespace quire::text::jinja {

namespace {

using Test = bool (*)(Runtime&, const Value& value, const Arguments&);

bool is_sequence(const Value& value) {
  auto list = value.list();
  return value.text() || value.dict() || value.is_undefined() ||
         (list && list->kind != Sequence::view);
}

bool is_iterable(const Value& value) {
  return value.text() || value.list() || value.dict() || value.is_undefined() ||
         value.pointer<GeneratorObject>() || value.pointer<LoopObject>();
}

bool is_callable(const Value& value) {
  return value.is<Function>() || value.is_undefined() || value.pointer<MacroObject>() ||
         value.pointer<MethodObject>() || value.pointer<LoopObject>() ||
         value.pointer<StatefulObject>();
}

bool same(Runtime& runtime, const Value& a, const Value& b) {
  if (a.list() || b.list()) return a.list() == b.list();
  if (a.dict() || b.dict()) return a.dict() == b.dict();
  if (a.is<bool>() != b.is<bool>() || a.is<double>() != b.is<double>()) return false;
  return equal(runtime, a, b);
}

std::int64_t whole(const Value& value) {
  auto integer = as_integer(value);
  if (!integer) fail_value("an int is needed, not {}", type_name(value));
  return *integer;
}

bool divisible(Runtime& runtime, const Value& value, const Arguments& arguments) {
  return *as_integer(binary(runtime, BinaryOperator::modulo, whole(value),
                            whole(arguments.require(0, "num")))) == 0;
}

template <const char* method>
bool text_test(Runtime& runtime, const Value& value, const Arguments&) {
  Arguments none{method, {}, {}};
  return value.text() && truth(find_text_method(method)(runtime, value, none));
}
constexpr char kIsUpper[] = "isupper", kIsLower[] = "islower";

bool filter_exists(Runtime&, const Value& value, const Arguments&) {
  auto text = value.text();
  if (!text) return false;
  for (auto find : {find_text_filter, find_sequence_filter, find_selection_filter,
                    find_sorting_filter, find_number_filter}) {
    if (find(text->view())) return true;
  }
  return false;
}

constexpr std::pair<std::string_view, Test> kTests[] = {
    {"defined", [](Runtime&, const Value& v, const Arguments&) { return !v.is_undefined(); }},
    {"undefined", [](Runtime&, const Value& v, const Arguments&) { return v.is_undefined(); }},
    {"none", [](Runtime&, const Value& v, const Arguments&) { return v.is_none(); }},
    {"boolean", [](Runtime&, const Value& v, const Arguments&) { return v.is<bool>(); }},
    {"true", [](Runtime&, const Value& v, const Arguments&) { return v.is<bool>() && truth(v); }},
    {"false", [](Runtime&, const Value& v, const Arguments&) { return v.is<bool>() && !truth(v); }},
    {"integer", [](Runtime&, const Value& v, const Arguments&) { return v.is<std::int64_t>(); }},
    {"float", [](Runtime&, const Value& v, const Arguments&) { return v.is<double>(); }},
    {"number", [](Runtime&, const Value& v, const Arguments&) { return is_number(v); }},
    {"string", [](Runtime&, const Value& v, const Arguments&) { return v.text() != nullptr; }},
    {"mapping", [](Runtime&, const Value& v, const Arguments&) { return v.dict() != nullptr; }},
    {"sequence", [](Runtime&, const Value& v, const Arguments&) { return is_sequence(v); }},
    {"iterable", [](Runtime&, const Value& v, const Arguments&) { return is_iterable(v); }},
    {"callable", [](Runtime&, const Value& v, const Arguments&) { return is_callable(v); }},
    {"escaped", [](Runtime&, const Value&, const Arguments&) { return false; }},
    {"odd", [](Runtime&, const Value& v, const Arguments&) { return whole(v) % 2 != 0; }},
    {"even", [](Runtime&, const Value& v, const Arguments&) { return whole(v) % 2 == 0; }},
    {"divisibleby", divisible},
    {"upper", text_test<kIsUpper>},
    {"lower", text_test<kIsLower>},
    {"filter", filter_exists},
    {"sameas", [](Runtime& r, const Value& v,
                  const Arguments& a) { return same(r, v, a.require(0, "other")); }},
    {"in", [](Runtime& r, const Value& v,
              const Arguments& a) { return contains(r, a.require(0, "seq"), v); }},
};

// Tests that are comparisons, under all their names.
struct ComparisonTest {
  std::string_view names[3];
  bool (*holds)(Runtime&, const Value&, const Value&);
};
constexpr ComparisonTest kComparisons[] = {
    {{"eq", "equalto", "=="},
     [](Runtime& r, const Value& a, const Value& b) { return equal(r, a, b); }},
    {{"ne", "!=", "!="},
     [](Runtime& r, const Value& a, const Value& b) { return !equal(r, a, b); }},
    {{"lt", "lessthan", "<"},
     [](Runtime& r, const Value& a, const Value& b) { return compare(r, a, b, "<") < 0; }},
    {{"le", "<=", "<="},
     [](Runtime& r, const Value& a, const Value& b) { return compare(r, a, b, "<=") <= 0; }},
    {{"gt", "greaterthan", ">"},
     [](Runtime& r, const Value& a, const Value& b) { return compare(r, a, b, ">") > 0; }},
    {{"ge", ">=", ">="},
     [](Runtime& r, const Value& a, const Value& b) { return compare(r, a, b, ">=") >= 0; }},
};

}  // namespace

bool apply_test(Runtime& runtime, std::string_view name, const Value& value,
                const Arguments& arguments) {
  for (const auto& [known, test] : kTests) {
    if (known == name) return test(runtime, value, arguments);
  }
  for (const ComparisonTest& test : kComparisons) {
    for (std::string_view known : test.names) {
      if (known == name) return test.holds(runtime, value, arguments.require(0, "other"));
    }
  }
  fail(StatusCode::unsupported, "No test named '{}' found", name.substr(0, 80));
}

}  // namespace quire::text::jinja
