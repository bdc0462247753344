#pragma once

#include <span>
#include <string_view>

#include "text/jinja/arguments.h"
#include "text/jinja/runtime.h"

namespace quire::text::jinja {

struct GlobalFunction {
  std::string_view name;
  Function function;
};

// What every template may call: range, namespace, dict, cycler, joiner, raise_exception,
// strftime_now.
std::span<const GlobalFunction> global_functions();

}  // namespace quire::text::jinja
