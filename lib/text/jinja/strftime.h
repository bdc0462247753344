#pragma once

#include "text/jinja/runtime.h"

namespace quire::text::jinja {

// Python's strftime of runtime.now() in UTC, in English. What a directive writes has the
// directive's trust. An unknown directive is an error.
TracedText format_time(Runtime& runtime, const TracedText& format);

}  // namespace quire::text::jinja
