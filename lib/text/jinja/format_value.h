#pragma once

#include <string>

#include "text/jinja/runtime.h"

namespace quire::text::jinja {

// Python's str(): strings themselves, "" for undefined, True, None, [1, 'a'].
TracedText to_text(Runtime& runtime, const Value& value);
// Appends str(value): spares a copy.
void append_text(Runtime& runtime, TracedText& out, const Value& value);
// Python's repr(). Strings inside keep their trust; quotes, brackets and commas are untrusted,
// since what stands between them may be the caller's.
void append_repr(Runtime& runtime, TracedText& out, const Value& value);
// The shortest digits that read back as `real`, in Python's form: 1.0, 1e+16, 1e-05, nan, inf.
std::string format_real(double real);

}  // namespace quire::text::jinja
