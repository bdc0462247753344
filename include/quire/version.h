#pragma once

#include <quire/export.h>

#define QUIRE_VERSION_MAJOR 0
#define QUIRE_VERSION_MINOR 1
#define QUIRE_VERSION_PATCH 0

namespace quire {

// The version of the library that is linked, as "major.minor.patch"; a static string.
QUIRE_EXPORT const char* version() noexcept;

}  // namespace quire
