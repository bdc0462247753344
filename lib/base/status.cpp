#include <quire/status.h>
#include <quire/version.h>

#define QUIRE_TEXT_(x) #x
#define QUIRE_TEXT(x) QUIRE_TEXT_(x)

namespace quire {

const char* to_string(StatusCode code) noexcept {
  switch (code) {
    case StatusCode::ok:
      return "ok";
    case StatusCode::invalid_argument:
      return "invalid argument";
    case StatusCode::not_found:
      return "not found";
    case StatusCode::malformed:
      return "malformed";
    case StatusCode::unsupported:
      return "unsupported";
    case StatusCode::resource_exhausted:
      return "resource exhausted";
    case StatusCode::out_of_memory:
      return "out of memory";
    case StatusCode::io_error:
      return "i/o error";
    case StatusCode::device_error:
      return "device error";
    case StatusCode::cancelled:
      return "cancelled";
    case StatusCode::internal:
      return "internal";
  }
  return "unknown";
}

const char* version() noexcept {
  return QUIRE_TEXT(QUIRE_VERSION_MAJOR) "." QUIRE_TEXT(QUIRE_VERSION_MINOR) "." QUIRE_TEXT(
      QUIRE_VERSION_PATCH);
}

}  // namespace quire
