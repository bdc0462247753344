#include <charconv>
#include <cmath>
#include <optional>
#include <utility>

#include "text/jinja/filters.h"
#include "text/jinja/methods.h"
#include "text/jinja/operators.h"
#include "text/jinja/unicode.h"

namespace quire::text::jinja {

namespace {

// The digits of a number written as Python reads it: no white space around, no '_', no '+'.
std::string plain_digits(std::string_view text) {
  text.remove_prefix(leading_space(text));
  text.remove_suffix(trailing_space(text));
  if (text.starts_with('+')) text.remove_prefix(1);
  std::string digits(text);
  std::erase(digits, '_');
  return digits;
}

std::optional<std::int64_t> read_integer(const std::string& digits, int base) {
  std::int64_t value = 0;
  auto end = digits.data() + digits.size();
  auto parsed = std::from_chars(digits.data(), end, value, base);
  if (parsed.ec != std::errc() || parsed.ptr != end) return std::nullopt;
  return value;
}

std::optional<double> read_real(const std::string& digits) {
  double value = 0;
  auto end = digits.data() + digits.size();
  auto parsed = std::from_chars(digits.data(), end, value);
  if (parsed.ec != std::errc() || parsed.ptr != end) return std::nullopt;
  return value;
}

std::optional<std::int64_t> truncate(double real) {
  if (!(std::fabs(real) < 9.2e18)) return std::nullopt;
  return static_cast<std::int64_t>(real);
}

Value to_integer(Runtime& runtime, const Value& value, Arguments& arguments) {
  arguments.allow_at_most(2);
  std::int64_t base = integer_or(arguments, 1, "base", 10);
  if (base < 2 || base > 36) fail_value("int(): base must be from 2 to 36, not {}", base);
  std::optional<std::int64_t> result;
  if (auto text = value.text()) {
    runtime.charge_bytes(text->size());
    std::string digits = plain_digits(text->view());
    bool prefixed = (base == 16 && digits.starts_with("0x")) ||
                    (base == 8 && digits.starts_with("0o")) ||
                    (base == 2 && digits.starts_with("0b"));
    if (prefixed) digits.erase(0, 2);
    result = read_integer(digits, static_cast<int>(base));
    if (!result) {
      if (auto real = read_real(digits)) result = truncate(*real);
    }
  } else if (auto integer = as_integer(value)) {
    result = integer;
  } else if (auto real = value.get_if<double>()) {
    result = truncate(*real);
  }
  if (result) return *result;
  const Value* absent = arguments.find(0, "default");
  return absent ? *absent : Value(std::int64_t{0});
}

Value to_real(Runtime& runtime, const Value& value, Arguments& arguments) {
  arguments.allow_at_most(1);
  if (auto real = as_real(value)) return *real;
  if (auto text = value.text()) {
    runtime.charge_bytes(text->size());
    if (auto real = read_real(plain_digits(text->view()))) return *real;
  }
  const Value* absent = arguments.find(0, "default");
  return absent ? *absent : Value(0.0);
}

Value absolute_filter(Runtime&, const Value& value, Arguments&) {
  return absolute(value);
}

// Half to even, like Python's round.
Value round(Runtime&, const Value& value, Arguments& arguments) {
  auto real = as_real(value);
  if (!real) fail_value("type {} doesn't define __round__ method", type_name(value));
  std::int64_t precision = integer_or(arguments, 0, "precision", 0);
  std::string_view method = "common";
  if (find_given(arguments, 1, "method")) method = require_text(arguments, 1, "method").view();
  if (as_integer(value) && method == "common") return value;
  double scale = std::pow(10.0, static_cast<double>(precision));
  double scaled = *real * scale;
  if (method == "ceil") return std::ceil(scaled) / scale;
  if (method == "floor") return std::floor(scaled) / scale;
  if (method != "common") fail_value("method must be common, ceil or floor");
  if (precision < 0 || precision > 300) return std::nearbyint(scaled) / scale;
  // The decimal digits decide, not the scaled product.
  return read_real(fmt::format("{:.{}f}", *real, static_cast<int>(precision))).value_or(*real);
}

constexpr std::pair<std::string_view, Filter> kFilters[] = {
    {"int", to_integer},
    {"float", to_real},
    {"abs", absolute_filter},
    {"round", round},
};

}  // namespace

Filter find_number_filter(std::string_view name) {
  for (const auto& [known, filter] : kFilters) {
    if (known == name) return filter;
  }
  return nullptr;
}

}  // namespace quire::text::jinja
