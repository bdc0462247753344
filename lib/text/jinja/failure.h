#pragma once

#include <string>
#include <utility>

#include <fmt/format.h>

#include <quire/status.h>

namespace quire::text::jinja {

// How lexer, parser and evaluator report errors to each other. Never leaves this folder:
// ChatTemplate turns it into a Status with line and column.
struct Failure {
  StatusCode code;
  std::string message;
};

template <class... Args>
[[noreturn]] void fail(StatusCode code, fmt::format_string<Args...> format, Args&&... args) {
  throw Failure{code, fmt::format(format, std::forward<Args>(args)...)};
}

// An operation that the values it met do not allow.
template <class... Args>
[[noreturn]] void fail_value(fmt::format_string<Args...> format, Args&&... args) {
  throw Failure{StatusCode::invalid_argument, fmt::format(format, std::forward<Args>(args)...)};
}

}  // namespace quire::text::jinja
