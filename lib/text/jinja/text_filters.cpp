#include <utility>

#include "text/jinja/access.h"
#include "text/jinja/filters.h"
#include "text/jinja/format_text.h"
#include "text/jinja/format_value.h"
#include "text/jinja/methods.h"
#include "text/jinja/operators.h"
#include "text/jinja/tojson.h"
#include "text/jinja/unicode.h"

namespace quire::text::jinja {

namespace {

Value string(Runtime& runtime, const Value& value, Arguments&) {
  return value.text() ? value : runtime.text(to_text(runtime, value));
}

// A string's method as a filter: whatever the value is, its str() is meant.
template <const char* name>
Value method_filter(Runtime& runtime, const Value& value, Arguments& arguments) {
  return find_text_method(name)(runtime, string(runtime, value, arguments), arguments);
}
constexpr char kUpper[] = "upper", kLower[] = "lower", kCapitalize[] = "capitalize";

Value trim(Runtime& runtime, const Value& value, Arguments& arguments) {
  arguments.allow_at_most(1);
  Value text = string(runtime, value, arguments);
  const TracedText* characters = nullptr;
  if (find_given(arguments, 0, "chars")) characters = &require_text(arguments, 0, "chars");
  return strip(runtime, *text.text(), Side::both, characters);
}

Value title(Runtime& runtime, const Value& value, Arguments& arguments) {
  Value text = string(runtime, value, arguments);
  runtime.charge_bytes(16 * text.text()->size());
  return runtime.text(change_case(*text.text(), Case::words));
}

Value replace_filter(Runtime& runtime, const Value& value, Arguments& arguments) {
  arguments.allow_at_most(3);
  Value text = string(runtime, value, arguments);
  TracedText from = to_text(runtime, arguments.require(0, "old"));
  TracedText to = to_text(runtime, arguments.require(1, "new"));
  std::int64_t most =
      find_given(arguments, 2, "count") ? integer_or(arguments, 2, "count", -1) : -1;
  return replace(runtime, *text.text(), from, to, most);
}

Value indent(Runtime& runtime, const Value& value, Arguments& arguments) {
  arguments.allow_at_most(3);
  TracedText text = to_text(runtime, value);
  TracedText margin;
  const Value* width = arguments.find(0, "width");
  if (width && width->text()) {
    margin = *width->text();
  } else {
    Value spaces = pad(runtime, TracedText(), integer_or(arguments, 0, "width", 4),
                       TracedText(" ", Trust::trusted), Side::left);
    margin = *spaces.text();
  }
  bool first = truth_or(arguments, 1, "first", false);
  bool blank = truth_or(arguments, 2, "blank", false);
  text.append("\n", Trust::trusted);
  TracedText result;
  bool first_line = true;
  for (const TracedText& line : split_lines(runtime, text)) {
    runtime.step();
    runtime.charge_bytes(margin.size());
    runtime.reserve_memory(result.size() + margin.size() + line.size());
    if (!first_line) result.append("\n", Trust::trusted);
    if (first_line ? first : blank || !line.empty()) result.append(margin);
    result.append(line);
    first_line = false;
  }
  return runtime.text(std::move(result));
}

Value escape(Runtime& runtime, const Value& value, Arguments&) {
  TracedText text = value.text() ? *value.text() : to_text(runtime, value);
  return runtime.text(escape_html(runtime, text));
}

Value force_escape(Runtime& runtime, const Value& value, Arguments&) {
  return runtime.text(escape_html(runtime, to_text(runtime, value)));
}

Value safe(Runtime& runtime, const Value& value, Arguments&) {
  TracedText text = to_text(runtime, value);
  text.set_markup(Markup::yes);
  return runtime.text(std::move(text));
}

Value format(Runtime& runtime, const Value& value, Arguments& arguments) {
  Value text = string(runtime, value, arguments);
  if (arguments.named.empty()) {
    return format_percent(runtime, *text.text(), runtime.tuple(arguments.positional));
  }
  std::vector<std::pair<Value, Value>> members;
  for (const auto& [name, argument] : arguments.named) {
    members.emplace_back(runtime.text(std::string(name)), argument);
  }
  return format_percent(runtime, *text.text(), runtime.dict(std::move(members)));
}

Value center(Runtime& runtime, const Value& value, Arguments& arguments) {
  return pad(runtime, to_text(runtime, value), integer_or(arguments, 0, "width", 80),
             TracedText(" ", Trust::trusted), Side::both);
}

Value word_count(Runtime& runtime, const Value& value, Arguments& arguments) {
  Arguments none{"split", {}, {}};
  Value words = find_text_method("split")(runtime, string(runtime, value, arguments), none);
  return static_cast<std::int64_t>(words.list()->items.size());
}

Value to_json_filter(Runtime& runtime, const Value& value, Arguments& arguments) {
  return to_json(runtime, value, arguments);
}

constexpr std::pair<std::string_view, Filter> kFilters[] = {
    {"tojson", to_json_filter},
    {"trim", trim},
    {"string", string},
    {"safe", safe},
    {"upper", method_filter<kUpper>},
    {"lower", method_filter<kLower>},
    {"capitalize", method_filter<kCapitalize>},
    {"title", title},
    {"replace", replace_filter},
    {"indent", indent},
    {"escape", escape},
    {"e", escape},
    {"forceescape", force_escape},
    {"format", format},
    {"center", center},
    {"wordcount", word_count},
};

}  // namespace

Filter find_text_filter(std::string_view name) {
  for (const auto& [known, filter] : kFilters) {
    if (known == name) return filter;
  }
  return nullptr;
}

}  // namespace quire::text::jinja
