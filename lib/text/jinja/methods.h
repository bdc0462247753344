#pragma once

#include <string_view>

#include "text/jinja/arguments.h"
#include "text/jinja/runtime.h"

namespace quire::text::jinja {

// Arguments of methods, filters and functions, checked for their type.
const TracedText& require_text(const Arguments& arguments, std::size_t position,
                               std::string_view name);
std::int64_t integer_or(const Arguments& arguments, std::size_t position, std::string_view name,
                        std::int64_t absent);
bool truth_or(const Arguments& arguments, std::size_t position, std::string_view name, bool absent);
// Null if absent or none.
const Value* find_given(const Arguments& arguments, std::size_t position, std::string_view name);

// Operations that both a method and a filter offer.
enum class Side { both, left, right };
// Without `characters`, white space is stripped.
Value strip(Runtime& runtime, const TracedText& text, Side side, const TracedText* characters);
Value replace(Runtime& runtime, const TracedText& text, const TracedText& from,
              const TracedText& to, std::int64_t most);
// Markup with & < > " ' escaped; markup itself stays as it is.
TracedText escape_html(Runtime& runtime, const TracedText& text);
Value join(Runtime& runtime, const Values& items, const TracedText& separator);
Value items_of(Runtime& runtime, const DictObject& dict, Sequence kind);
std::vector<TracedText> split_lines(Runtime& runtime, const TracedText& text);

}  // namespace quire::text::jinja
