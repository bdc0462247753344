#include <algorithm>
#include <array>
#include <utility>

#include "text/jinja/access.h"
#include "text/jinja/format_text.h"
#include "text/jinja/format_value.h"
#include "text/jinja/methods.h"
#include "text/jinja/operators.h"
#include "text/jinja/split_methods.h"
#include "text/jinja/unicode.h"

namespace quire::text::jinja {

namespace {

template <Side side>
Value strip_method(Runtime& runtime, const Value& self, Arguments& arguments) {
  arguments.allow_at_most(1);
  const TracedText* characters = nullptr;
  if (find_given(arguments, 0, "chars")) characters = &require_text(arguments, 0, "chars");
  return strip(runtime, *self.text(), side, characters);
}

template <Case target>
Value case_method(Runtime& runtime, const Value& self, Arguments& arguments) {
  arguments.allow_at_most(0);
  runtime.charge_bytes(16 * self.text()->size());
  runtime.reserve_memory(2 * self.text()->size());
  return runtime.text(change_case(*self.text(), target));
}

// startswith and endswith: one string, or a tuple of which any may match.
template <Side side>
Value affix_method(Runtime& runtime, const Value& self, Arguments& arguments) {
  arguments.allow_at_most(1);
  auto matches = [&](const Value& value) {
    const TracedText* affix = value.text();
    if (!affix) {
      fail_value("{} first arg must be str or a tuple of str, not {}", arguments.callee,
                 type_name(value));
    }
    auto text = self.text()->view();
    runtime.charge_bytes(affix->size());
    return side == Side::left ? text.starts_with(affix->view()) : text.ends_with(affix->view());
  };
  const Value& given = arguments.require(0, "prefix");
  const ListObject* tuple = given.list();
  if (!tuple || tuple->kind != Sequence::tuple) return matches(given);
  return std::any_of(tuple->items.begin(), tuple->items.end(), matches);
}

template <Side side>
Value remove_affix(Runtime& runtime, const Value& self, Arguments& arguments) {
  auto affix = require_text(arguments, 0, side == Side::left ? "prefix" : "suffix").view();
  const TracedText& text = *self.text();
  bool left = side == Side::left && text.view().starts_with(affix);
  bool right = side == Side::right && text.view().ends_with(affix);
  if (!left && !right) return self;
  return runtime.text(text.slice(left ? affix.size() : 0, text.size() - affix.size()));
}

Value replace_method(Runtime& runtime, const Value& self, Arguments& arguments) {
  arguments.allow_at_most(3);
  return replace(runtime, *self.text(), require_text(arguments, 0, "old"),
                 require_text(arguments, 1, "new"), integer_or(arguments, 2, "count", -1));
}

// The part of the string from the optional arguments `start` and `end`: byte offset and length.
std::pair<std::size_t, std::size_t> window(Runtime& runtime, const TracedText& text,
                                           const Arguments& arguments) {
  bool given = find_given(arguments, 1, "start") || find_given(arguments, 2, "end");
  if (!given) return {0, text.size()};
  runtime.charge_bytes(2 * text.size());
  auto size = static_cast<std::int64_t>(count_characters(text.view()));
  auto clamp = [&](std::int64_t at) {
    return std::clamp<std::int64_t>(at < 0 ? at + size : at, 0, size);
  };
  auto start = static_cast<std::size_t>(clamp(integer_or(arguments, 1, "start", 0)));
  auto stop = static_cast<std::size_t>(clamp(integer_or(arguments, 2, "end", size)));
  std::size_t from = byte_offset(text.view(), start);
  std::size_t to = std::max(from, byte_offset(text.view(), stop));
  return {from, to - from};
}

enum class Missing { minus_one, failure };

template <Side side, Missing missing>
Value find_method(Runtime& runtime, const Value& self, Arguments& arguments) {
  const TracedText& text = *self.text();
  auto part = require_text(arguments, 0, "sub").view();
  auto [from, size] = window(runtime, text, arguments);
  auto view = text.view().substr(from, size);
  std::size_t at;
  if (side == Side::left) {
    at = runtime.find(view, part);
  } else {
    runtime.charge_bytes(view.size() * (part.size() + 1));
    at = view.rfind(part);
  }
  if (at != view.npos) {
    return static_cast<std::int64_t>(count_characters(text.view().substr(0, from + at)));
  }
  if (missing == Missing::failure) fail_value("substring not found");
  return std::int64_t{-1};
}

Value count_method(Runtime& runtime, const Value& self, Arguments& arguments) {
  auto part = require_text(arguments, 0, "sub").view();
  auto [from, size] = window(runtime, *self.text(), arguments);
  auto view = self.text()->view().substr(from, size);
  if (part.empty()) return static_cast<std::int64_t>(count_characters(view) + 1);
  std::int64_t count = 0;
  for (std::size_t at = runtime.find(view, part); at != view.npos;
       at = runtime.find(view, part, at + part.size())) {
    runtime.step();
    ++count;
  }
  return count;
}

Value join_method(Runtime& runtime, const Value& self, Arguments& arguments) {
  Values items = iterate(runtime, arguments.require(0, "iterable"));
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (!items[i].text()) {
      fail_value("sequence item {}: expected str instance, {} found", i, type_name(items[i]));
    }
  }
  return join(runtime, items, *self.text());
}

template <bool (*test)(char32_t)>
Value all_characters(Runtime& runtime, const Value& self, Arguments&) {
  auto view = self.text()->view();
  runtime.charge_bytes(view.size());
  for (std::size_t at = 0; at < view.size();) {
    Character c = character_at(view, at);
    if (!test(c.code)) return false;
    at += c.length;
  }
  return !view.empty();
}

bool is_letter_or_digit(char32_t code) {
  return is_letter(code) || is_digit(code);
}

// isupper and islower: at least one cased character, and none of the other case.
template <Case wanted>
Value cased(Runtime& runtime, const Value& self, Arguments&) {
  auto view = self.text()->view();
  runtime.charge_bytes(view.size());
  bool found = false;
  for (std::size_t at = 0; at < view.size();) {
    Character c = character_at(view, at);
    if (wanted == Case::upper ? is_lower(c.code) : is_upper(c.code)) return false;
    found = found || is_upper(c.code) || is_lower(c.code);
    at += c.length;
  }
  return found;
}

// ljust (fills at the right), rjust and center.
template <Side filled>
Value justify(Runtime& runtime, const Value& self, Arguments& arguments) {
  TracedText fill(" ", Trust::trusted);
  if (find_given(arguments, 1, "fillchar")) fill = require_text(arguments, 1, "fillchar");
  if (count_characters(fill.view()) != 1) {
    fail_value("The fill character must be exactly one character long");
  }
  return pad(runtime, *self.text(), integer_or(arguments, 0, "width", 0), fill, filled);
}

Value zfill(Runtime& runtime, const Value& self, Arguments& arguments) {
  const TracedText& text = *self.text();
  bool sign = !text.empty() && (text.view()[0] == '-' || text.view()[0] == '+');
  std::int64_t width = integer_or(arguments, 0, "width", 0) - sign;
  Value digits = pad(runtime, text.slice(sign, text.size() - sign), width,
                     TracedText("0", Trust::trusted), Side::left);
  TracedText result = text.slice(0, sign);
  result.append(*digits.text());
  return runtime.text(std::move(result));
}

Value format_method(Runtime& runtime, const Value& self, Arguments& arguments) {
  return format_braces(runtime, *self.text(), arguments);
}

constexpr std::pair<std::string_view, Method> kMethods[] = {
    {"strip", strip_method<Side::both>},
    {"lstrip", strip_method<Side::left>},
    {"rstrip", strip_method<Side::right>},
    {"upper", case_method<Case::upper>},
    {"lower", case_method<Case::lower>},
    {"casefold", case_method<Case::lower>},
    {"title", case_method<Case::title>},
    {"capitalize", case_method<Case::capitalize>},
    {"startswith", affix_method<Side::left>},
    {"endswith", affix_method<Side::right>},
    {"removeprefix", remove_affix<Side::left>},
    {"removesuffix", remove_affix<Side::right>},
    {"replace", replace_method},
    {"find", find_method<Side::left, Missing::minus_one>},
    {"rfind", find_method<Side::right, Missing::minus_one>},
    {"index", find_method<Side::left, Missing::failure>},
    {"rindex", find_method<Side::right, Missing::failure>},
    {"count", count_method},
    {"join", join_method},
    {"split", split_method},
    {"rsplit", rsplit_method},
    {"splitlines", splitlines_method},
    {"partition", partition_method},
    {"rpartition", rpartition_method},
    {"isdigit", all_characters<is_digit>},
    {"isdecimal", all_characters<is_digit>},
    {"isnumeric", all_characters<is_digit>},
    {"isalpha", all_characters<is_letter>},
    {"isalnum", all_characters<is_letter_or_digit>},
    {"isspace", all_characters<is_space>},
    {"isupper", cased<Case::upper>},
    {"islower", cased<Case::lower>},
    {"ljust", justify<Side::right>},
    {"rjust", justify<Side::left>},
    {"center", justify<Side::both>},
    {"zfill", zfill},
    {"format", format_method},
};

}  // namespace

Method find_text_method(std::string_view name) {
  for (const auto& [known, method] : kMethods) {
    if (known == name) return method;
  }
  return nullptr;
}

}  // namespace quire::text::jinja
