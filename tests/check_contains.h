#pragma once

#include <string>
#include <string_view>

#include "catch.h"

// Checks that a message has this part and shows both when not. (The matchers for it differ between
// Catch2 v2 and v3.)
inline void check_contains(std::string_view text, std::string_view part) {
  INFO("text: " << std::string(text));
  INFO("part: " << std::string(part));
  CHECK(text.find(part) != std::string_view::npos);
}
