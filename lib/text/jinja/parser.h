#pragma once

#include <string_view>

#include "text/jinja/ast.h"

namespace quire::text::jinja {

// Parses a template whose newlines are normalized. Throws SyntaxFailure.
Program parse_template(std::string_view source);

}  // namespace quire::text::jinja
