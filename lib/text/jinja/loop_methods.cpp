#include "text/jinja/loop_methods.h"

#include "text/jinja/arguments.h"
#include "text/jinja/ast.h"
#include "text/jinja/operators.h"

namespace quire::text::jinja {

namespace {

Value cycle(Runtime&, const Value& self, Arguments& arguments) {
  if (arguments.positional.empty()) fail_value("no items for cycling given");
  return arguments.positional[self.pointer<LoopObject>()->index % arguments.positional.size()];
}

Value changed(Runtime& runtime, const Value& self, Arguments& arguments) {
  LoopObject& loop = *self.pointer<LoopObject>();
  bool same = loop.last_changed && loop.last_changed->size() == arguments.positional.size();
  for (std::size_t i = 0; same && i < arguments.positional.size(); ++i) {
    same = equal(runtime, (*loop.last_changed)[i], arguments.positional[i]);
  }
  if (!same) loop.last_changed = arguments.positional;
  return !same;
}

Value next_of_cycler(Runtime&, const Value& self, Arguments&) {
  StatefulObject& state = *self.pointer<StatefulObject>();
  Value current = state.items[state.index];
  state.index = (state.index + 1) % state.items.size();
  return current;
}

Value reset_cycler(Runtime&, const Value& self, Arguments&) {
  self.pointer<StatefulObject>()->index = 0;
  return {};
}

}  // namespace

std::optional<Value> loop_attribute(Runtime& runtime, LoopObject* loop, std::string_view name) {
  auto index = static_cast<std::int64_t>(loop->index);
  auto size = static_cast<std::int64_t>(loop->items.size());
  if (name == "index") return index + 1;
  if (name == "index0") return index;
  if (name == "revindex") return size - index;
  if (name == "revindex0") return size - index - 1;
  if (name == "first") return index == 0;
  if (name == "last") return index + 1 == size;
  if (name == "length") return size;
  if (name == "depth") return loop->depth;
  if (name == "depth0") return loop->depth - 1;
  if (name == "previtem") {
    if (index == 0 || index > size) return runtime.undefined("there is no previous item");
    return loop->items[loop->index - 1];
  }
  if (name == "nextitem") {
    if (index + 1 >= size) return runtime.undefined("there is no next item");
    return loop->items[loop->index + 1];
  }
  if (name == "cycle") return runtime.method(loop, "cycle", cycle);
  if (name == "changed") return runtime.method(loop, "changed", changed);
  return std::nullopt;
}

std::optional<Value> cycler_attribute(Runtime& runtime, StatefulObject* state,
                                      std::string_view name) {
  if (state->kind != StatefulObject::Kind::cycler) return std::nullopt;
  if (name == "next") return runtime.method(state, "next", next_of_cycler);
  if (name == "reset") return runtime.method(state, "reset", reset_cycler);
  if (name == "current") return state->items[state->index];
  return std::nullopt;
}

Value macro_name(Runtime& runtime, const MacroObject& macro) {
  return runtime.text(macro.definition->name);
}

Value call_stateful(Runtime& runtime, StatefulObject& state, Arguments&) {
  if (state.kind != StatefulObject::Kind::joiner) fail_value("'Cycler' object is not callable");
  bool first = state.index == 0;
  state.index = 1;
  return first ? runtime.text("") : state.items[0];
}

}  // namespace quire::text::jinja
