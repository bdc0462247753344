#include <algorithm>
#include <utility>

#include "text/jinja/access.h"
#include "text/jinja/filters.h"
#include "text/jinja/methods.h"
#include "text/jinja/operators.h"
#include "text/jinja/unicode.h"

namespace quire::text::jinja {

namespace {

struct Keyed {
  Value key;
  Value value;
};

// What a value is ordered by: itself or an attribute, in lower case unless case matters.
class KeyMaker {
 public:
  KeyMaker(Runtime& runtime, const Value* path, bool case_sensitive)
      : runtime_(runtime), path_(path), case_sensitive_(case_sensitive) {}

  Value operator()(const Value& value) const {
    if (!path_) return folded(value);
    auto text = path_->text();
    if (!text || text->view().find(',') == std::string_view::npos) {
      return folded(attribute_path(runtime_, value, *path_));
    }
    Values keys;  // several attributes: "role,name"
    std::string_view rest = text->view();
    while (true) {
      std::size_t comma = rest.find(',');
      Value part = runtime_.text(std::string(rest.substr(0, comma)));
      keys.push_back(folded(attribute_path(runtime_, value, part)));
      if (comma == rest.npos) return runtime_.list(std::move(keys));
      rest.remove_prefix(comma + 1);
    }
  }

 private:
  Value folded(const Value& value) const {
    if (case_sensitive_ || !value.text()) return value;
    runtime_.charge_bytes(16 * value.text()->size());
    return runtime_.text(change_case(*value.text(), Case::lower));
  }

  Runtime& runtime_;
  const Value* path_;
  bool case_sensitive_;
};

std::vector<Keyed> with_keys(Runtime& runtime, const Values& values, const KeyMaker& key) {
  runtime.reserve_values(2 * values.size());
  std::vector<Keyed> keyed;
  for (const Value& value : values) keyed.push_back({key(value), value});
  return keyed;
}

void sort_keyed(Runtime& runtime, std::vector<Keyed>& keyed, bool reverse) {
  std::stable_sort(keyed.begin(), keyed.end(), [&](const Keyed& a, const Keyed& b) {
    return reverse ? compare(runtime, b.key, a.key, "<") < 0
                   : compare(runtime, a.key, b.key, "<") < 0;
  });
}

Values values_of(const std::vector<Keyed>& keyed) {
  Values values;
  for (const Keyed& entry : keyed) values.push_back(entry.value);
  return values;
}

Value sort(Runtime& runtime, const Value& value, Arguments& arguments) {
  arguments.allow_at_most(3);
  KeyMaker key(runtime, find_given(arguments, 2, "attribute"),
               truth_or(arguments, 1, "case_sensitive", false));
  auto keyed = with_keys(runtime, iterate(runtime, value), key);
  sort_keyed(runtime, keyed, truth_or(arguments, 0, "reverse", false));
  return runtime.list(values_of(keyed));
}

Value dictsort(Runtime& runtime, const Value& value, Arguments& arguments) {
  arguments.allow_at_most(3);
  if (!value.dict()) fail_value("dictsort: '{}' object has no attribute 'items'", type_name(value));
  std::string_view by = "key";
  if (find_given(arguments, 1, "by")) by = require_text(arguments, 1, "by").view();
  if (by != "key" && by != "value") fail_value("You can only sort by either \"key\" or \"value\"");
  Value position = std::int64_t{by == "value"};
  KeyMaker key(runtime, &position, truth_or(arguments, 0, "case_sensitive", false));
  Value pairs = items_of(runtime, *value.dict(), Sequence::list);
  auto keyed = with_keys(runtime, pairs.list()->items, key);
  sort_keyed(runtime, keyed, truth_or(arguments, 2, "reverse", false));
  return runtime.list(values_of(keyed));
}

Value unique(Runtime& runtime, const Value& value, Arguments& arguments) {
  arguments.allow_at_most(2);
  KeyMaker key(runtime, find_given(arguments, 1, "attribute"),
               truth_or(arguments, 0, "case_sensitive", false));
  Values kept, keys;
  for (const Value& element : iterate(runtime, value)) {
    Value own = key(element);
    bool known = std::any_of(keys.begin(), keys.end(),
                             [&](const Value& other) { return equal(runtime, own, other); });
    if (known) continue;
    keys.push_back(std::move(own));
    kept.push_back(element);
  }
  return runtime.generator(std::move(kept));
}

enum class Extreme { least, greatest };

template <Extreme wanted>
Value extreme(Runtime& runtime, const Value& value, Arguments& arguments) {
  KeyMaker key(runtime, find_given(arguments, 1, "attribute"),
               truth_or(arguments, 0, "case_sensitive", false));
  auto keyed = with_keys(runtime, iterate(runtime, value), key);
  if (keyed.empty()) return runtime.undefined("No aggregated item, sequence was empty.");
  std::size_t best = 0;
  for (std::size_t i = 1; i < keyed.size(); ++i) {
    int order = compare(runtime, keyed[i].key, keyed[best].key, "<");
    if (wanted == Extreme::least ? order < 0 : order > 0) best = i;
  }
  return keyed[best].value;
}

// Pairs (key, list), sorted by key.
Value groupby(Runtime& runtime, const Value& value, Arguments& arguments) {
  const Value& path = arguments.require(0, "attribute");
  KeyMaker folded(runtime, &path, truth_or(arguments, 2, "case_sensitive", false));
  auto keyed = with_keys(runtime, iterate(runtime, value), folded);
  sort_keyed(runtime, keyed, false);
  Values groups;
  for (std::size_t i = 0; i < keyed.size();) {
    Values members;
    std::size_t start = i;
    for (; i < keyed.size() && equal(runtime, keyed[i].key, keyed[start].key); ++i) {
      members.push_back(keyed[i].value);
    }
    Value name = attribute_path(runtime, keyed[start].value, path);
    if (members.empty()) {  // a key that is not even equal to itself
      members.push_back(keyed[i++].value);
    }
    groups.push_back(runtime.tuple({name, runtime.list(std::move(members))}));
  }
  return runtime.list(std::move(groups));
}

constexpr std::pair<std::string_view, Filter> kFilters[] = {
    {"sort", sort},
    {"dictsort", dictsort},
    {"unique", unique},
    {"min", extreme<Extreme::least>},
    {"max", extreme<Extreme::greatest>},
    {"groupby", groupby},
};

}  // namespace

Filter find_sorting_filter(std::string_view name) {
  for (const auto& [known, filter] : kFilters) {
    if (known == name) return filter;
  }
  return nullptr;
}

}  // namespace quire::text::jinja
