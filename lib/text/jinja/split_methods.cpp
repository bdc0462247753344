#include "text/jinja/split_methods.h"

#include <algorithm>

#include "text/jinja/methods.h"
#include "text/jinja/unicode.h"

namespace quire::text::jinja {

namespace {

// A part of a string, in bytes.
struct Part {
  std::size_t start, end;
};

std::vector<Part> split_at_space(Runtime& runtime, std::string_view text) {
  std::vector<Part> parts;
  for (std::size_t at = leading_space(text); at < text.size();) {
    std::size_t start = at;
    while (at < text.size()) {
      Character c = character_at(text, at);
      if (is_space(c.code)) break;
      at += c.length;
    }
    runtime.step();
    parts.push_back({start, at});
    at += leading_space(text.substr(at));
  }
  return parts;
}

std::vector<Part> split_at(Runtime& runtime, std::string_view text, std::string_view separator) {
  if (separator.empty()) fail_value("empty separator");
  std::vector<Part> parts;
  std::size_t start = 0;
  for (std::size_t at = runtime.find(text, separator); at != text.npos;
       at = runtime.find(text, separator, start)) {
    runtime.step();
    parts.push_back({start, at});
    start = at + separator.size();
  }
  parts.push_back({start, text.size()});
  return parts;
}

// Joins the parts past the first (or before the last) `most` again.
void limit_parts(std::vector<Part>& parts, std::int64_t most, Side from, std::string_view text) {
  if (most < 0 || parts.size() <= static_cast<std::size_t>(most) + 1) return;
  auto keep = static_cast<std::ptrdiff_t>(most);
  if (from == Side::left) {
    parts[static_cast<std::size_t>(keep)].end = text.size();
    parts.resize(static_cast<std::size_t>(keep) + 1);
    return;
  }
  std::size_t first = parts.size() - static_cast<std::size_t>(keep) - 1;
  parts[first].start = 0;
  parts.erase(parts.begin(), parts.begin() + static_cast<std::ptrdiff_t>(first));
}

Value to_list(Runtime& runtime, const TracedText& text, const std::vector<Part>& parts) {
  runtime.reserve_memory(parts.size() * (sizeof(TextObject) + sizeof(Value)));
  Values items;
  items.reserve(parts.size());
  for (const Part& part : parts) {
    items.push_back(runtime.text(text.slice(part.start, part.end - part.start)));
  }
  return runtime.list(std::move(items));
}

Value split(Runtime& runtime, const Value& self, const Arguments& arguments, Side from) {
  arguments.allow_at_most(2);
  const TracedText& text = *self.text();
  runtime.charge_bytes(text.size());
  std::int64_t most = integer_or(arguments, 1, "maxsplit", -1);
  bool at_space = !find_given(arguments, 0, "sep");
  auto parts = at_space ? split_at_space(runtime, text.view())
                        : split_at(runtime, text.view(), require_text(arguments, 0, "sep").view());
  limit_parts(parts, most, from, text.view());
  return to_list(runtime, text, parts);
}

Value partition_at(Runtime& runtime, const TracedText& text, std::size_t at,
                   const TracedText& separator) {
  std::size_t after = at + separator.size();
  return runtime.tuple({runtime.text(text.slice(0, at)), runtime.text(separator),
                        runtime.text(text.slice(after, text.size() - after))});
}

}  // namespace

Value split_method(Runtime& runtime, const Value& self, Arguments& arguments) {
  return split(runtime, self, arguments, Side::left);
}

Value rsplit_method(Runtime& runtime, const Value& self, Arguments& arguments) {
  return split(runtime, self, arguments, Side::right);
}

Value splitlines_method(Runtime& runtime, const Value& self, Arguments& arguments) {
  if (truth_or(arguments, 0, "keepends", false))
    fail_value("splitlines(keepends) is not supported");
  Values lines;
  for (TracedText& line : split_lines(runtime, *self.text())) {
    lines.push_back(runtime.text(std::move(line)));
  }
  return runtime.list(std::move(lines));
}

Value partition_method(Runtime& runtime, const Value& self, Arguments& arguments) {
  const TracedText& separator = require_text(arguments, 0, "sep");
  if (separator.empty()) fail_value("empty separator");
  std::size_t at = runtime.find(self.text()->view(), separator.view());
  if (at != std::string_view::npos) {
    return partition_at(runtime, *self.text(), at, separator);
  }
  return runtime.tuple({self, runtime.text(""), runtime.text("")});
}

Value rpartition_method(Runtime& runtime, const Value& self, Arguments& arguments) {
  const TracedText& separator = require_text(arguments, 0, "sep");
  if (separator.empty()) fail_value("empty separator");
  auto view = self.text()->view();
  runtime.charge_bytes(view.size() * separator.size());
  std::size_t at = view.rfind(separator.view());
  if (at != view.npos) return partition_at(runtime, *self.text(), at, separator);
  return runtime.tuple({runtime.text(""), runtime.text(""), self});
}

}  // namespace quire::text::jinja
