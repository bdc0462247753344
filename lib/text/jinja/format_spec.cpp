#include "text/jinja/format_spec.h"

#include <charconv>
#include <cmath>

#include "text/jinja/format_text.h"
#include "text/jinja/format_value.h"
#include "text/jinja/operators.h"
#include "text/jinja/unicode.h"

namespace quire::text::jinja {

namespace {

constexpr int kMaxPrecision = 1000;

bool is_align(char32_t c) {
  return c == '<' || c == '>' || c == '^' || c == '=';
}

std::int64_t read_number(std::string_view spec, std::size_t& at) {
  std::int64_t number = 0;
  auto parsed = std::from_chars(spec.data() + at, spec.data() + spec.size(), number);
  if (parsed.ec != std::errc()) fail_value("Invalid format specifier");
  at = static_cast<std::size_t>(parsed.ptr - spec.data());
  return number;
}

std::string in_base(std::uint64_t value, int base, bool upper) {
  char buffer[72];
  auto end = std::to_chars(buffer, buffer + sizeof(buffer), value, base).ptr;
  std::string digits(buffer, end);
  if (upper) {
    for (char& c : digits) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c;
  }
  return digits;
}

std::string integer_digits(std::uint64_t magnitude, const FormatSpec& spec) {
  switch (spec.type) {
    case 'x':
      return (spec.alternate ? "0x" : "") + in_base(magnitude, 16, false);
    case 'X':
      return (spec.alternate ? "0X" : "") + in_base(magnitude, 16, true);
    case 'o':
      return (spec.alternate ? "0o" : "") + in_base(magnitude, 8, false);
    case 'b':
      return (spec.alternate ? "0b" : "") + in_base(magnitude, 2, false);
    default:
      return std::to_string(magnitude);
  }
}

std::string real_digits(double magnitude, const FormatSpec& spec) {
  if (std::isnan(magnitude)) return "nan";
  if (std::isinf(magnitude)) return "inf";
  int precision = spec.precision.value_or(6);
  switch (spec.type) {
    case 'e':
      return fmt::format("{:.{}e}", magnitude, precision);
    case 'E':
      return fmt::format("{:.{}E}", magnitude, precision);
    case 'f':
    case 'F':
      return fmt::format("{:.{}f}", magnitude, precision);
    case '%':
      return fmt::format("{:.{}f}%", magnitude * 100, precision);
    case 'g':
    case 'G':
    case 'n':
      return fmt::format("{:.{}g}", magnitude, precision == 0 ? 1 : precision);
    default:
      return spec.precision ? fmt::format("{:.{}g}", magnitude, precision == 0 ? 1 : precision)
                            : format_real(magnitude);
  }
}

void group_thousands(std::string& digits) {
  std::size_t whole = std::min(digits.find_first_not_of("0123456789"), digits.size());
  for (std::size_t at = whole; at > 3; at -= 3) digits.insert(at - 3, ",");
}

std::string number_text(const Value& value, const FormatSpec& spec, std::string& sign) {
  auto integer = as_integer(value);
  std::string_view real_types = "eEfFgGn%";
  std::string digits;
  bool negative;
  if (integer && (spec.type == '\0' || real_types.find(spec.type) == real_types.npos)) {
    negative = *integer < 0;
    auto magnitude = static_cast<std::uint64_t>(*integer);
    digits = integer_digits(negative ? 0 - magnitude : magnitude, spec);
  } else {
    double real = *as_real(value);
    negative = std::signbit(real) && !std::isnan(real);
    digits = real_digits(std::fabs(real), spec);
  }
  if (spec.thousands) group_thousands(digits);
  sign = negative ? "-" : spec.sign == '-' ? "" : std::string(1, spec.sign);
  return digits;
}

void check_type(const Value& value, const FormatSpec& spec) {
  std::string_view allowed = value.is<double>() ? "eEfFgGn%"
                             : is_number(value) ? "bcdoxXneEfFgG%"
                                                : "s";
  if (spec.type != '\0' && allowed.find(spec.type) == allowed.npos) {
    fail_value("Unknown format code '{}' for object of type '{}'", spec.type, type_name(value));
  }
}

}  // namespace

FormatSpec parse_format_spec(std::string_view spec) {
  FormatSpec result;
  std::size_t at = 0;
  if (!spec.empty()) {
    Character first = character_at(spec, 0);
    if (first.length < spec.size() && is_align(static_cast<unsigned char>(spec[first.length]))) {
      result.fill = first.code;
      result.align = spec[first.length];
      at = first.length + 1;
    } else if (is_align(first.code)) {
      result.align = spec[0];
      at = 1;
    }
  }
  auto peek = [&] { return at < spec.size() ? spec[at] : '\0'; };
  if (peek() == '+' || peek() == '-' || peek() == ' ') result.sign = spec[at++];
  if (peek() == '#') result.alternate = ++at;
  if (peek() == '0') {
    ++at;
    if (!result.align) {
      result.fill = '0';
      result.align = '=';
    }
  }
  if (is_digit(static_cast<unsigned char>(peek()))) result.width = read_number(spec, at);
  if (peek() == ',' || peek() == '_') result.thousands = ++at;
  if (peek() == '.') {
    ++at;
    std::int64_t precision = read_number(spec, at);
    if (precision < 0 || precision > kMaxPrecision) {
      fail_value("a precision of {} is more than {}", precision, kMaxPrecision);
    }
    result.precision = static_cast<int>(precision);
  }
  if (at < spec.size()) result.type = spec[at++];
  if (at != spec.size()) fail_value("Invalid format specifier");
  return result;
}

TracedText format_with(Runtime& runtime, const Value& value, const FormatSpec& spec) {
  check_type(value, spec);
  std::string fill;
  append_utf8(fill, spec.fill);
  TracedText fill_text(fill, Trust::trusted);
  bool number = is_number(value) && !(value.is<bool>() && spec.type == '\0');
  if (!number) {
    TracedText text = to_text(runtime, value);
    if (spec.precision) {
      text = text.slice(0, byte_offset(text.view(), static_cast<std::size_t>(*spec.precision)));
    }
    Side side = spec.align == '>' ? Side::left : spec.align == '^' ? Side::both : Side::right;
    return *pad(runtime, text, spec.width, fill_text, side).text();
  }
  std::string sign;
  std::string digits = number_text(value, spec, sign);
  if (spec.align == '=') {
    auto width = spec.width - static_cast<std::int64_t>(sign.size());
    TracedText result(sign, Trust::trusted);
    result.append(
        *pad(runtime, TracedText(digits, Trust::trusted), width, fill_text, Side::left).text());
    return result;
  }
  Side side = spec.align == '<' ? Side::right : spec.align == '^' ? Side::both : Side::left;
  return *pad(runtime, TracedText(sign + digits, Trust::trusted), spec.width, fill_text, side)
              .text();
}

}  // namespace quire::text::jinja
