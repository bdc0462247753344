#pragma once

#include "text/jinja/arguments.h"
#include "text/jinja/runtime.h"

namespace quire::text::jinja {

// str.split and its kin.
Value split_method(Runtime& runtime, const Value& self, Arguments& arguments);
Value rsplit_method(Runtime& runtime, const Value& self, Arguments& arguments);
Value splitlines_method(Runtime& runtime, const Value& self, Arguments& arguments);
Value partition_method(Runtime& runtime, const Value& self, Arguments& arguments);
Value rpartition_method(Runtime& runtime, const Value& self, Arguments& arguments);

}  // namespace quire::text::jinja
