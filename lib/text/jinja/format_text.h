#pragma once

#include "text/jinja/arguments.h"
#include "text/jinja/methods.h"
#include "text/jinja/runtime.h"

namespace quire::text::jinja {

// text % arguments, as Python's: %s %r %d %i %f %e %g %x %o %c %% with flags, width and precision.
// A tuple gives several arguments, a dict the named ones.
Value format_percent(Runtime& runtime, const TracedText& format, const Value& arguments);
// text.format(...): {}, {0}, {name}, {name.attribute[key]!r:>10}.
Value format_braces(Runtime& runtime, const TracedText& format, const Arguments& arguments);
// Fills up to `width` characters on the given side; on both, the odd one at the right.
Value pad(Runtime& runtime, const TracedText& text, std::int64_t width, const TracedText& fill,
          Side filled);

}  // namespace quire::text::jinja
