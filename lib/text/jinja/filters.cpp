#include "text/jinja/filters.h"

namespace quire::text::jinja {

Value apply_filter(Runtime& runtime, std::string_view name, const Value& value,
                   Arguments& arguments) {
  for (auto find : {find_text_filter, find_sequence_filter, find_selection_filter,
                    find_sorting_filter, find_number_filter}) {
    if (Filter filter = find(name)) {
      arguments.callee = name;
      return filter(runtime, value, arguments);
    }
  }
  fail(StatusCode::unsupported, "No filter named '{}' found", name.substr(0, 80));
}

}  // namespace quire::text::jinja
