#pragma once

#include <optional>
#include <string_view>

#include "text/jinja/runtime.h"

namespace quire::text::jinja {

// loop.index, loop.first, loop.cycle, ...; nothing if there is no such attribute.
std::optional<Value> loop_attribute(Runtime& runtime, LoopObject* loop, std::string_view name);
std::optional<Value> cycler_attribute(Runtime& runtime, StatefulObject* state,
                                      std::string_view name);
Value macro_name(Runtime& runtime, const MacroObject& macro);
// Calls a cycler or a joiner.
Value call_stateful(Runtime& runtime, StatefulObject& state, Arguments& arguments);

}  // namespace quire::text::jinja
