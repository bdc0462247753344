#include "text/jinja/runtime.h"

#include <algorithm>

#include "text/jinja/mapping.h"

namespace quire::text::jinja {

namespace {
// Levels of evaluation inside each other. Bounds the stack: a level takes a few hundred bytes.
constexpr int kMaxDepth = 400;
}  // namespace

void Runtime::charge_steps(std::int64_t steps) {
  steps_ += steps;
  if (steps_ > budget_.steps) {
    fail(StatusCode::resource_exhausted, "rendering takes more than {} steps ({} wanted)",
         budget_.steps, steps_);
  }
}

namespace {

// Knuth, Morris and Pratt: linear whatever the texts are.
std::size_t find_long(std::string_view text, std::string_view part, std::size_t from) {
  std::vector<std::size_t> border(part.size());  // of part[0, i]: longest proper prefix and suffix
  for (std::size_t i = 1, length = 0; i < part.size(); ++i) {
    while (length > 0 && part[i] != part[length]) length = border[length - 1];
    if (part[i] == part[length]) ++length;
    border[i] = length;
  }
  std::size_t matched = 0;
  for (std::size_t at = from; at < text.size(); ++at) {
    while (matched > 0 && text[at] != part[matched]) matched = border[matched - 1];
    if (text[at] == part[matched]) ++matched;
    if (matched == part.size()) return at + 1 - matched;
  }
  return text.npos;
}

}  // namespace

std::size_t Runtime::find(std::string_view text, std::string_view part, std::size_t from) {
  constexpr std::size_t kShort = 32;  // comparing every byte with every byte is still cheap
  std::size_t at;
  if (part.size() <= kShort) {
    at = text.find(part, from);
  } else {
    reserve_memory(part.size() * sizeof(std::size_t));
    charge_bytes(8 * part.size());
    at = find_long(text, part, from);
  }
  std::size_t read = (at == text.npos ? text.size() : at) - std::min(from, text.size());
  charge_bytes(8 * read);
  return at;
}

void Runtime::reserve_memory(std::size_t bytes) {
  auto room = budget_.memory_bytes - meter_.bytes;
  if (room < 0 || bytes > static_cast<std::size_t>(room)) {
    fail(StatusCode::resource_exhausted,
         "its values need more than {} bytes of memory ({} in use, {} more wanted)",
         budget_.memory_bytes, meter_.bytes, bytes);
  }
}

void Runtime::reserve_values(std::size_t count) {
  charge_values(count);
  reserve_memory(count > SIZE_MAX / sizeof(Value) ? SIZE_MAX : count * sizeof(Value));
}

void Runtime::hold(std::size_t bytes) {
  reserve_memory(bytes);
  meter_.bytes += static_cast<std::int64_t>(bytes);
}

void Runtime::check_output(std::size_t bytes) {
  if (budget_.output_bytes < 0 || bytes > static_cast<std::size_t>(budget_.output_bytes)) {
    fail(StatusCode::resource_exhausted, "the output is longer than {} bytes ({} wanted)",
         budget_.output_bytes, bytes);
  }
}

void Runtime::enter() {
  if (depth_ >= kMaxDepth) {
    fail(StatusCode::resource_exhausted,
         "more than {} levels of nested calls and values ({} wanted)", kMaxDepth, depth_ + 1);
  }
  ++depth_;
}

Value Runtime::text(TracedText text) {
  charge_bytes(text.size());
  reserve_memory(text.cost() + sizeof(TextObject));
  return TextReference(new TextObject(std::move(text), meter_));
}

Value Runtime::text(std::string bytes, Trust trust) {
  return text(TracedText(std::move(bytes), trust));
}

Value Runtime::undefined(std::string reason) {
  Value message = text(std::move(reason));
  return Undefined{*message.get_if<TextReference>()};
}

Value Runtime::list(Values items, Sequence kind) {
  reserve_values(items.size());
  hold(sizeof(ListObject) + items.size() * sizeof(Value));
  return &lists_.emplace_back(ListObject{kind, std::move(items)});
}

Value Runtime::generator(Values items) {
  reserve_values(items.size());
  hold(sizeof(GeneratorObject) + items.size() * sizeof(Value));
  return &generators_.emplace_back(GeneratorObject{std::move(items)});
}

Value Runtime::method(Value self, std::string_view name, Method method) {
  hold(sizeof(MethodObject));
  return &methods_.emplace_back(MethodObject{std::move(self), name, method});
}

Value Runtime::dict(std::vector<std::pair<Value, Value>> members) {
  constexpr std::size_t kMemberCost = 2 * sizeof(Value) + 5 * sizeof(void*);  // with its hash node
  charge_values(2 * members.size());
  hold(sizeof(DictObject) + members.size() * kMemberCost);
  DictObject& dict = dicts_.emplace_back();
  for (auto& [key, value] : members) insert_member(*this, dict, key, value);
  return &dict;
}

NamespaceObject* Runtime::make_namespace() {
  hold(sizeof(NamespaceObject));
  return &namespaces_.emplace_back();
}

void Runtime::set_member(NamespaceObject& names, std::string_view name, Value value) {
  for (auto& [existing, old] : names.members) {
    if (existing == name) {
      old = std::move(value);
      return;
    }
  }
  hold(name.size() + sizeof(names.members[0]));
  names.members.emplace_back(name, std::move(value));
}

MacroObject* Runtime::macro(const MacroStatement* definition, Scope* scope) {
  hold(sizeof(MacroObject));
  return &macros_.emplace_back(MacroObject{definition, scope});
}

LoopObject* Runtime::loop(Values items) {
  reserve_values(items.size());
  hold(sizeof(LoopObject) + items.size() * sizeof(Value));
  LoopObject& loop = loops_.emplace_back();
  loop.items = std::move(items);
  return &loop;
}

void Runtime::release_items(LoopObject& loop) {
  meter_.bytes -= static_cast<std::int64_t>(loop.items.size() * sizeof(Value));
  loop.items = {};
}

StatefulObject* Runtime::stateful(StatefulObject::Kind kind, Values items) {
  reserve_values(items.size());
  hold(sizeof(StatefulObject) + items.size() * sizeof(Value));
  return &stateful_.emplace_back(StatefulObject{kind, std::move(items)});
}

}  // namespace quire::text::jinja
