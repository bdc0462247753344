#pragma once

#include <quire/request.h>
#include <quire/status.h>

namespace quire {

constexpr int kMaxChoices = 64;

// Everything about a request that can be told from its fields alone: ranges, NaN, ids outside the
// vocabulary, contradictions. Errors name the field with its value and the range.
Status check_request(const Request& request, int vocabulary);

}  // namespace quire
