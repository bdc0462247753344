#include "text/jinja/format_text.h"

#include <charconv>
#include <cmath>

#include "text/jinja/access.h"
#include "text/jinja/format_spec.h"
#include "text/jinja/format_value.h"
#include "text/jinja/mapping.h"
#include "text/jinja/operators.h"
#include "text/jinja/unicode.h"

namespace quire::text::jinja {

Value pad(Runtime& runtime, const TracedText& text, std::int64_t width, const TracedText& fill,
          Side filled) {
  runtime.charge_bytes(text.size());
  auto size = static_cast<std::int64_t>(count_characters(text.view()));
  std::int64_t missing = width > size ? width - size : 0;
  runtime.charge_values(static_cast<std::size_t>(missing));
  runtime.reserve_memory(static_cast<std::size_t>(missing) > SIZE_MAX / 8
                             ? SIZE_MAX
                             : static_cast<std::size_t>(missing) * fill.size() + text.size());
  std::int64_t left = filled == Side::left ? missing : filled == Side::both ? missing / 2 : 0;
  TracedText result;
  for (std::int64_t i = 0; i < left; ++i) result.append(fill);
  result.append(text);
  for (std::int64_t i = left; i < missing; ++i) result.append(fill);
  return runtime.text(std::move(result));
}

namespace {

// Reads {} fields and writes what they stand for.
class BraceFormatter {
 public:
  BraceFormatter(Runtime& runtime, const TracedText& format, const Arguments& arguments)
      : runtime_(runtime), format_(format), view_(format.view()), arguments_(arguments) {}

  Value run() {
    while (at_ < view_.size()) {
      std::size_t brace = std::min(view_.find_first_of("{}", at_), view_.size());
      result_.append_slice(format_, at_, brace - at_);
      at_ = brace;
      if (at_ == view_.size()) break;
      if (at_ + 1 < view_.size() && view_[at_ + 1] == view_[at_]) {
        result_.append_slice(format_, at_, 1);
        at_ += 2;
        continue;
      }
      if (view_[at_] == '}') fail_value("Single '}}' encountered in format string");
      field();
    }
    return runtime_.text(std::move(result_));
  }

 private:
  void field() {
    runtime_.step();
    std::size_t end = view_.find('}', at_);
    if (end == view_.npos) fail_value("expected '}}' before end of string");
    std::string_view inside = view_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    std::size_t colon = std::min(inside.find(':'), inside.size());
    std::string_view spec = colon < inside.size() ? inside.substr(colon + 1) : std::string_view();
    std::string_view name = inside.substr(0, colon);
    std::size_t mark = std::min(name.find('!'), name.size());
    std::string_view conversion = name.substr(mark);
    if (spec.find('{') != spec.npos) fail_value("nested format fields are not supported");
    Value value = look_up(name.substr(0, mark));
    if (conversion == "!r") {
      TracedText text;
      append_repr(runtime_, text, value);
      value = runtime_.text(std::move(text));
    } else if (conversion == "!s") {
      value = runtime_.text(to_text(runtime_, value));
    } else if (!conversion.empty()) {
      fail_value("unknown conversion '{}' in a format string", conversion.substr(0, 40));
    }
    TracedText written = format_with(runtime_, value, parse_format_spec(spec));
    runtime_.reserve_memory(result_.size() + written.size());
    result_.append(written);
  }

  Value look_up(std::string_view path) {
    std::size_t end = std::min(path.find_first_of(".["), path.size());
    Value value = argument(path.substr(0, end));
    while (end < path.size()) {
      bool bracket = path[end] == '[';
      std::size_t start = end + 1;
      std::size_t stop = std::min(path.find_first_of(bracket ? "]" : ".[", start), path.size());
      std::string_view key = path.substr(start, stop - start);
      end = stop + bracket;
      if (!bracket) {
        value = attribute(runtime_, value, key);
      } else if (auto index = number(key)) {
        value = item(runtime_, value, *index);
      } else {
        value = item(runtime_, value, runtime_.text(std::string(key)));
      }
    }
    return value;
  }

  static std::optional<std::int64_t> number(std::string_view text) {
    std::int64_t value = 0;
    auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
    if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size()) return std::nullopt;
    return value;
  }

  Value argument(std::string_view name) {
    auto index = name.empty() ? std::optional<std::int64_t>(automatic_++) : number(name);
    const Value* value = nullptr;
    if (index && *index >= 0) {
      value = arguments_.find(static_cast<std::size_t>(*index), {});
    } else if (!index) {
      value = arguments_.find(SIZE_MAX, name);
    }
    if (!value) fail_value("format() has no argument for the field '{{{}}}'", name.substr(0, 80));
    return *value;
  }

  Runtime& runtime_;
  const TracedText& format_;
  std::string_view view_;
  const Arguments& arguments_;
  TracedText result_;
  std::size_t at_ = 0;
  std::int64_t automatic_ = 0;
};

// Reads % fields and writes what they stand for.
class PercentFormatter {
 public:
  PercentFormatter(Runtime& runtime, const TracedText& format, const Value& arguments)
      : runtime_(runtime), format_(format), view_(format.view()), arguments_(arguments) {}

  Value run() {
    while (at_ < view_.size()) {
      std::size_t percent = std::min(view_.find('%', at_), view_.size());
      result_.append_slice(format_, at_, percent - at_);
      at_ = percent;
      if (at_ < view_.size()) field();
    }
    const ListObject* tuple = as_tuple();
    bool all_used = tuple ? used_ == tuple->items.size() : used_ == 1 || arguments_.dict();
    if (!all_used) fail_value("not all arguments converted during string formatting");
    return runtime_.text(std::move(result_));
  }

 private:
  const ListObject* as_tuple() const {
    auto list = arguments_.list();
    return list && list->kind == Sequence::tuple ? list : nullptr;
  }

  char peek() const { return at_ < view_.size() ? view_[at_] : '\0'; }

  Value next_argument() {
    const ListObject* tuple = as_tuple();
    if (used_ >= (tuple ? tuple->items.size() : 1)) {
      fail_value("not enough arguments for format string");
    }
    return tuple ? tuple->items[used_++] : (++used_, arguments_);
  }

  Value field_value() {
    if (peek() != '(') return next_argument();
    std::size_t end = view_.find(')', at_);
    if (end == view_.npos || !arguments_.dict()) fail_value("format requires a mapping");
    std::string_view key = view_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    const Value* value = find_member(*arguments_.dict(), key);
    if (!value) fail_value("format has no argument named '{}'", key.substr(0, 80));
    return *value;
  }

  // Flags, width and precision, which stand before the type.
  FormatSpec flags() {
    std::string spec;
    bool left = false, zero = false;
    for (; peek() != '\0' && std::string_view("-+ #0").find(peek()) != std::string_view::npos;
         ++at_) {
      left = left || peek() == '-';
      zero = zero || peek() == '0';
      if (peek() == '+' || (peek() == ' ' && spec.empty())) spec = std::string(1, peek());
    }
    spec = (left ? "<" : zero ? "0=" : "") + spec;
    while (is_digit(static_cast<unsigned char>(peek())) || peek() == '.') spec += view_[at_++];
    if (spec.ends_with('.')) spec += '0';
    return parse_format_spec(spec);
  }

  void field() {
    runtime_.step();
    ++at_;
    if (peek() == '%') return result_.append_slice(format_, at_++, 1);
    std::optional<Value> value;
    if (peek() == '(') value = field_value();
    FormatSpec spec = flags();
    char type = peek();
    if (std::string_view("sradiufFeEgGxXoc").find(type) == std::string_view::npos || type == '\0') {
      fail_value("unsupported format character at byte {}", at_);
    }
    ++at_;
    if (!value) value = next_argument();
    TracedText written = format_with(runtime_, converted(type, *value, spec), spec);
    runtime_.reserve_memory(result_.size() + written.size());
    result_.append(written);
  }

  Value converted(char type, const Value& value, FormatSpec& spec) {
    if (type == 's' || type == 'c' || type == 'r' || type == 'a') {
      if (!spec.align || spec.align == '=') spec.align = '>';
      spec.sign = '-';
      TracedText text;
      if (type == 'r' || type == 'a') {
        append_repr(runtime_, text, value);
      } else {
        append_text(runtime_, text, value);
      }
      return runtime_.text(std::move(text));
    }
    auto real = as_real(value);
    if (!real) fail_value("%{} format: a number is required, not {}", type, type_name(value));
    bool whole = type == 'd' || type == 'i' || type == 'u';
    spec.type = whole ? 'd' : type;
    if (!whole) return value;
    spec.precision.reset();
    if (auto integer = as_integer(value)) return *integer;
    if (!(std::fabs(*real) < 9e18)) fail_value("an integer does not fit 64 bits");
    return static_cast<std::int64_t>(*real);
  }

  Runtime& runtime_;
  const TracedText& format_;
  std::string_view view_;
  const Value& arguments_;
  TracedText result_;
  std::size_t at_ = 0;
  std::size_t used_ = 0;
};

}  // namespace

Value format_braces(Runtime& runtime, const TracedText& format, const Arguments& arguments) {
  return BraceFormatter(runtime, format, arguments).run();
}

Value format_percent(Runtime& runtime, const TracedText& format, const Value& arguments) {
  return PercentFormatter(runtime, format, arguments).run();
}

}  // namespace quire::text::jinja
