#include "text/jinja/format_value.h"
#include "text/jinja/methods.h"
#include "text/jinja/operators.h"
#include "text/jinja/unicode.h"

namespace quire::text::jinja {

const TracedText& require_text(const Arguments& arguments, std::size_t position,
                               std::string_view name) {
  const Value& value = arguments.require(position, name);
  const TracedText* text = value.text();
  if (!text) {
    fail_value("{}(): '{}' must be str, not {}", arguments.callee, name, type_name(value));
  }
  return *text;
}

std::int64_t integer_or(const Arguments& arguments, std::size_t position, std::string_view name,
                        std::int64_t absent) {
  const Value* value = arguments.find(position, name);
  if (!value) return absent;
  auto integer = as_integer(*value);
  if (!integer) {
    fail_value("{}(): '{}' must be int, not {}", arguments.callee, name, type_name(*value));
  }
  return *integer;
}

bool truth_or(const Arguments& arguments, std::size_t position, std::string_view name,
              bool absent) {
  const Value* value = arguments.find(position, name);
  return value ? truth(*value) : absent;
}

const Value* find_given(const Arguments& arguments, std::size_t position, std::string_view name) {
  const Value* value = arguments.find(position, name);
  return value && !value->is_none() ? value : nullptr;
}

namespace {

// Bytes at the start (or the end) of `text` that are characters of `set`.
std::size_t leading_in(std::string_view text, std::string_view set) {
  std::size_t at = 0;
  while (at < text.size()) {
    std::size_t size = character_at(text, at).length;
    if (set.find(text.substr(at, size)) == set.npos) break;
    at += size;
  }
  return at;
}

std::size_t trailing_in(std::string_view text, std::string_view set) {
  std::size_t end = text.size();
  while (end > 0) {
    std::size_t start = end - 1;
    while (start > 0 && end - start < 4 &&
           (static_cast<unsigned char>(text[start]) & 0xC0) == 0x80) {
      --start;
    }
    if (start + character_at(text, start).length != end) break;
    if (set.find(text.substr(start, end - start)) == set.npos) break;
    end = start;
  }
  return text.size() - end;
}

}  // namespace

Value strip(Runtime& runtime, const TracedText& text, Side side, const TracedText* characters) {
  auto view = text.view();
  if (characters) runtime.charge_bytes(view.size() * characters->size());
  std::size_t start = 0;
  if (side != Side::right) {
    start = characters ? leading_in(view, characters->view()) : leading_space(view);
  }
  std::size_t length = view.size() - start;
  if (side != Side::left) {
    auto rest = view.substr(start);
    length -= characters ? trailing_in(rest, characters->view()) : trailing_space(rest);
  }
  return runtime.text(text.slice(start, length));
}

Value replace(Runtime& runtime, const TracedText& text, const TracedText& from,
              const TracedText& to, std::int64_t most) {
  auto view = text.view();
  TracedText result;
  std::size_t at = 0;
  for (std::int64_t done = 0; done != most; ++done) {
    std::size_t found = at;
    if (!from.empty()) {
      found = runtime.find(view, from.view(), at);
    } else if (done > 0) {  // between all characters, and at both ends
      found = at < view.size() ? at + character_at(view, at).length : view.npos;
    }
    if (found == view.npos) break;
    runtime.step();
    runtime.reserve_memory(result.size() + to.size() + view.size());
    result.append_slice(text, at, found - at);
    result.append(to);
    at = found + from.size();
  }
  result.append_slice(text, at, view.size() - at);
  return runtime.text(std::move(result));
}

namespace {

std::string_view html_escape(char c) {
  switch (c) {
    case '&':
      return "&amp;";
    case '<':
      return "&lt;";
    case '>':
      return "&gt;";
    case '"':
      return "&#34;";
    case '\'':
      return "&#39;";
    default:
      return {};
  }
}

}  // namespace

TracedText escape_html(Runtime& runtime, const TracedText& text) {
  if (text.markup() == Markup::yes) return text;
  runtime.charge_bytes(8 * text.size());
  runtime.reserve_memory(6 * text.size());
  TracedText result;
  for (std::size_t at = 0; at < text.size(); ++at) {
    std::string_view escaped = html_escape(text.view()[at]);
    result.append(escaped.empty() ? text.view().substr(at, 1) : escaped, text.trust_at(at));
  }
  result.set_markup(Markup::yes);
  return result;
}

Value join(Runtime& runtime, const Values& items, const TracedText& separator) {
  TracedText result;
  for (std::size_t i = 0; i < items.size(); ++i) {
    runtime.step();
    runtime.charge_bytes(separator.size());
    runtime.reserve_memory(result.size() + separator.size());
    if (i > 0) result.append(separator);
    append_text(runtime, result, items[i]);
  }
  return runtime.text(std::move(result));
}

std::vector<TracedText> split_lines(Runtime& runtime, const TracedText& text) {
  runtime.charge_bytes(text.size());
  auto view = text.view();
  std::vector<TracedText> lines;
  std::size_t start = 0;
  for (std::size_t at = 0; at < view.size();) {
    Character c = character_at(view, at);
    bool ends = (c.code >= 0x0A && c.code <= 0x0D) || (c.code >= 0x1C && c.code <= 0x1E) ||
                c.code == 0x85 || c.code == 0x2028 || c.code == 0x2029;
    std::size_t next = at + c.length;
    if (ends) {
      runtime.step();
      runtime.reserve_memory((lines.size() + 1) * sizeof(TextObject) + view.size());
      lines.push_back(text.slice(start, at - start));
      if (c.code == '\r' && next < view.size() && view[next] == '\n') ++next;
      start = next;
    }
    at = next;
  }
  if (start < view.size()) lines.push_back(text.slice(start, view.size() - start));
  return lines;
}

}  // namespace quire::text::jinja
