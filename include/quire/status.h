#pragma once

#include <optional>
#include <string>
#include <utility>

#include <quire/export.h>

namespace quire {

// What kind of thing went wrong; the message says which one, with both numbers.
enum class StatusCode {
  ok,
  invalid_argument,    // the caller's parameters are wrong in themselves
  not_found,           // a file, tensor or request that does not exist
  malformed,           // a file, template or JSON text that breaks its format
  unsupported,         // well-formed, but this library cannot do it
  resource_exhausted,  // a budget, a queue or the context is too small
  out_of_memory,       // the system or the device refused memory
  io_error,            // the system refused to read
  device_error,        // the device failed or is missing
  cancelled,           // stopped because the caller asked for it
  internal,            // a broken invariant of the library: please report it
};

// Short lower-case name of a code, such as "malformed"; a static string.
QUIRE_EXPORT const char* to_string(StatusCode code) noexcept;

// The outcome of an operation: ok, or a code and a message in words. A value, safe to copy.
class [[nodiscard]] QUIRE_EXPORT Status {
 public:
  Status() = default;  // ok
  Status(StatusCode code, std::string message) : code_(code), message_(std::move(message)) {}

  explicit operator bool() const noexcept { return code_ == StatusCode::ok; }
  bool ok() const noexcept { return code_ == StatusCode::ok; }
  StatusCode code() const noexcept { return code_; }
  const std::string& message() const noexcept { return message_; }

 private:
  StatusCode code_ = StatusCode::ok;
  std::string message_;
};

// A value, or the Status that says why there is none. Reading the value of a failed Result is
// undefined, as for std::optional: test it first.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}         // NOLINT: implicit by design
  Result(Status status) : status_(std::move(status)) {  // NOLINT: implicit by design
    if (status_.ok()) status_ = Status(StatusCode::internal, "a Result without a value was made");
  }

  explicit operator bool() const noexcept { return value_.has_value(); }
  bool ok() const noexcept { return value_.has_value(); }
  const Status& status() const noexcept { return status_; }

  T& operator*() & noexcept { return *value_; }
  const T& operator*() const& noexcept { return *value_; }
  // By value, so that `for (x : *f())` reads a living object.
  T operator*() && { return std::move(*value_); }
  T* operator->() noexcept { return &*value_; }
  const T* operator->() const noexcept { return &*value_; }

 private:
  std::optional<T> value_;
  Status status_;
};

}  // namespace quire
