#pragma once

#include <exception>
#include <new>
#include <string>
#include <utility>

#include <fmt/format.h>

#include <quire/status.h>

namespace quire {

// A Status with a formatted message: error(StatusCode::malformed, "{}: {} bytes", name, n).
template <class... Args>
Status error(StatusCode code, fmt::format_string<Args...> format, Args&&... args) {
  return Status(code, fmt::format(format, std::forward<Args>(args)...));
}

// "what: why", or a message short enough to need no memory if there is none for that.
inline Status exception_status(StatusCode code, const char* what, const char* why) noexcept {
  try {
    return Status(code, std::string(what) + ": " + why);
  } catch (...) {
    return Status(StatusCode::out_of_memory, "out of memory");
  }
}

// Calls `body` (which returns a Status or a Result) and turns every exception into a Status. Wraps
// each public function, thread entry and call of a library that may throw.
template <class Body>
auto guarded(const char* what, Body&& body) -> decltype(body()) {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return exception_status(StatusCode::out_of_memory, what, "out of memory");
  } catch (const std::exception& e) {
    return exception_status(StatusCode::internal, what, e.what());
  } catch (...) {
    return exception_status(StatusCode::internal, what, "unknown exception");
  }
}

}  // namespace quire
