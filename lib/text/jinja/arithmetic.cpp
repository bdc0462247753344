#include <cmath>

#include "base/checked.h"
#include "text/jinja/format_text.h"
#include "text/jinja/operators.h"

namespace quire::text::jinja {

namespace {

const char* symbol_of(BinaryOperator operation) {
  switch (operation) {
    case BinaryOperator::add:
      return "+";
    case BinaryOperator::subtract:
      return "-";
    case BinaryOperator::multiply:
      return "*";
    case BinaryOperator::divide:
      return "/";
    case BinaryOperator::floor_divide:
      return "//";
    case BinaryOperator::modulo:
      return "%";
    case BinaryOperator::power:
      return "** or pow()";
  }
  return "?";
}

std::int64_t require_fit(std::optional<std::int64_t> result) {
  if (!result) fail_value("an integer does not fit 64 bits");
  return *result;
}

std::int64_t floor_divide(std::int64_t a, std::int64_t b) {
  if (b == 0) fail_value("integer division or modulo by zero");
  if (b == -1) return require_fit(checked_multiply<std::int64_t>(a, -1));
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

std::int64_t modulo(std::int64_t a, std::int64_t b) {
  if (b == 0) fail_value("integer division or modulo by zero");
  if (b == -1) return 0;
  std::int64_t rest = a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

Value power(std::int64_t base, std::int64_t exponent) {
  if (exponent < 0) return std::pow(static_cast<double>(base), static_cast<double>(exponent));
  std::int64_t result = 1;
  while (exponent > 0) {
    if (exponent & 1) result = require_fit(checked_multiply<std::int64_t>(result, base));
    exponent >>= 1;
    if (exponent > 0) {
      // 0, 1 and -1 stay small; any other base soon overflows, which ends the loop.
      base = require_fit(checked_multiply<std::int64_t>(base, base));
    }
  }
  return result;
}

Value integers(BinaryOperator operation, std::int64_t a, std::int64_t b) {
  switch (operation) {
    case BinaryOperator::add:
      return require_fit(checked_add<std::int64_t>(a, b));
    case BinaryOperator::subtract: {
      std::int64_t result;
      if (__builtin_sub_overflow(a, b, &result)) return require_fit(std::nullopt);
      return result;
    }
    case BinaryOperator::multiply:
      return require_fit(checked_multiply<std::int64_t>(a, b));
    case BinaryOperator::divide:
      if (b == 0) fail_value("division by zero");
      return static_cast<double>(a) / static_cast<double>(b);
    case BinaryOperator::floor_divide:
      return floor_divide(a, b);
    case BinaryOperator::modulo:
      return modulo(a, b);
    case BinaryOperator::power:
      return power(a, b);
  }
  return {};
}

Value reals(BinaryOperator operation, double a, double b) {
  switch (operation) {
    case BinaryOperator::add:
      return a + b;
    case BinaryOperator::subtract:
      return a - b;
    case BinaryOperator::multiply:
      return a * b;
    case BinaryOperator::divide:
    case BinaryOperator::floor_divide:
      if (b == 0) fail_value("float division by zero");
      return operation == BinaryOperator::divide ? a / b : std::floor(a / b);
    case BinaryOperator::modulo: {
      if (b == 0) fail_value("float modulo");
      double rest = std::fmod(a, b);
      return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
    }
    case BinaryOperator::power:
      return std::pow(a, b);
  }
  return {};
}

Value repeat(Runtime& runtime, const Value& sequence, std::int64_t times) {
  std::size_t count = times > 0 ? static_cast<std::size_t>(times) : 0;
  if (auto text = sequence.text()) {
    if (text->empty()) count = 0;
    // Of the characters and of what is known about their origin.
    auto size = checked_multiply<std::size_t>(text->cost(), count);
    runtime.reserve_memory(size.value_or(SIZE_MAX));
    runtime.charge_bytes(*size);
    runtime.charge_values(count);
    TracedText result;
    for (std::size_t i = 0; i < count; ++i) result.append(*text);
    return runtime.text(std::move(result));
  }
  const ListObject& list = *sequence.list();
  if (list.items.empty()) count = 0;
  auto size = checked_multiply<std::size_t>(list.items.size(), count);
  runtime.reserve_values(size.value_or(SIZE_MAX / 64));
  Values items;
  for (std::size_t i = 0; i < count; ++i) {
    items.insert(items.end(), list.items.begin(), list.items.end());
  }
  return runtime.list(std::move(items), list.kind);
}

TracedText concatenate(Runtime& runtime, const TracedText& a, const TracedText& b) {
  if (a.markup() != b.markup()) {
    return concatenate(runtime, escape_html(runtime, a), escape_html(runtime, b));
  }
  runtime.reserve_memory(a.size() + b.size());
  TracedText result = a;
  result.append(b);
  return result;
}

Value concatenate_lists(Runtime& runtime, const ListObject& a, const ListObject& b) {
  runtime.reserve_values(a.items.size() + b.items.size());
  Values items = a.items;
  items.insert(items.end(), b.items.begin(), b.items.end());
  return runtime.list(std::move(items), a.kind);
}

bool is_sequence(const Value& value) {
  return value.text() || (value.list() && value.list()->kind != Sequence::view);
}

[[noreturn]] void refuse(BinaryOperator operation, const Value& a, const Value& b) {
  for (const Value* value : {&a, &b}) {
    if (auto undefined = value->get_if<Undefined>()) fail_value("{}", (*undefined->reason).view());
  }
  if (operation == BinaryOperator::add && a.text()) {
    fail_value("can only concatenate str (not \"{}\") to str", type_name(b));
  }
  fail_value("unsupported operand type(s) for {}: '{}' and '{}'", symbol_of(operation),
             type_name(a), type_name(b));
}

}  // namespace

Value binary(Runtime& runtime, BinaryOperator operation, const Value& a, const Value& b) {
  auto left = as_integer(a), right = as_integer(b);
  if (left && right) return integers(operation, *left, *right);
  if (is_number(a) && is_number(b)) return reals(operation, *as_real(a), *as_real(b));
  if (operation == BinaryOperator::add) {
    if (a.text() && b.text()) {
      return runtime.text(concatenate(runtime, *a.text(), *b.text()));
    }
    if (a.list() && b.list() && is_sequence(a) && a.list()->kind == b.list()->kind) {
      return concatenate_lists(runtime, *a.list(), *b.list());
    }
  }
  if (operation == BinaryOperator::multiply) {
    if (is_sequence(a) && right) return repeat(runtime, a, *right);
    if (is_sequence(b) && left) return repeat(runtime, b, *left);
  }
  if (operation == BinaryOperator::modulo && a.text()) return format_percent(runtime, *a.text(), b);
  refuse(operation, a, b);
}

Value negate(const Value& value) {
  if (auto integer = as_integer(value)) {
    return require_fit(checked_multiply<std::int64_t>(*integer, -1));
  }
  if (auto real = value.get_if<double>()) return -*real;
  if (auto undefined = value.get_if<Undefined>()) fail_value("{}", (*undefined->reason).view());
  fail_value("bad operand type for unary -: '{}'", type_name(value));
}

Value absolute(const Value& value) {
  if (auto integer = as_integer(value)) return *integer < 0 ? negate(value) : Value(*integer);
  if (auto real = value.get_if<double>()) return std::fabs(*real);
  fail_value("bad operand type for abs(): '{}'", type_name(value));
}

}  // namespace quire::text::jinja
