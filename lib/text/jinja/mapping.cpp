#include "text/jinja/mapping.h"

#include <functional>
#include <optional>

#include "text/jinja/operators.h"

namespace quire::text::jinja {

namespace {

std::optional<std::size_t> find_text(const DictObject& dict, std::string_view key) {
  auto [first, last] = dict.index.equal_range(std::hash<std::string_view>{}(key));
  for (; first != last; ++first) {
    const TracedText* text = dict.members[first->second].first.text();
    if (text && text->view() == key) return first->second;
  }
  return std::nullopt;
}

std::optional<std::size_t> find_index(Runtime& runtime, const DictObject& dict, const Value& key) {
  if (const TracedText* text = key.text()) {
    runtime.charge_bytes(text->size());
    return find_text(dict, text->view());
  }
  if (key.dict() || (key.list() && key.list()->kind == Sequence::list)) {
    fail_value("unhashable type: '{}'", type_name(key));
  }
  if (dict.index.size() == dict.members.size()) return std::nullopt;  // all keys are strings
  runtime.charge_values(dict.members.size());
  for (std::size_t i = 0; i < dict.members.size(); ++i) {
    if (equal(runtime, dict.members[i].first, key)) return i;
  }
  return std::nullopt;
}

}  // namespace

void insert_member(Runtime& runtime, DictObject& dict, Value key, Value value) {
  if (auto existing = find_index(runtime, dict, key)) {
    dict.members[*existing].second = std::move(value);
    return;
  }
  if (const TracedText* text = key.text()) {
    dict.index.emplace(std::hash<std::string_view>{}(text->view()), dict.members.size());
  }
  dict.members.emplace_back(std::move(key), std::move(value));
}

const Value* find_member(Runtime& runtime, const DictObject& dict, const Value& key) {
  auto index = find_index(runtime, dict, key);
  return index ? &dict.members[*index].second : nullptr;
}

const Value* find_member(const DictObject& dict, std::string_view key) {
  auto index = find_text(dict, key);
  return index ? &dict.members[*index].second : nullptr;
}

}  // namespace quire::text::jinja
