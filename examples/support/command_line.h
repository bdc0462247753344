#pragma once

#include <charconv>
#include <cmath>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <quire/status.h>

namespace examples {

// The whole of `text` as a number; false if it is anything else ("12x", " 1", "nan", too large).
template <class Number>
requires std::is_arithmetic_v<Number>
bool parse_value(std::string_view text, Number& into) {
  Number value{};
  const char* end = text.data() + text.size();
  const auto [rest, code] = std::from_chars(text.data(), end, value);
  if (code != std::errc() || rest != end) return false;
  if constexpr (std::is_floating_point_v<Number>) {
    if (!std::isfinite(value)) return false;
  }
  into = value;
  return true;
}

bool parse_value(std::string_view text, bool& into);  // "0" or "1"
bool parse_value(std::string_view text, std::string& into);
// "1,2,3"; at least one.
bool parse_value(std::string_view text, std::vector<std::int32_t>& into);

template <class T>
bool parse_value(std::string_view text, std::optional<T>& into) {
  T value{};
  if (!parse_value(text, value)) return false;
  into = std::move(value);
  return true;
}

// A program's options, "--name value" or "--name=value". Every option names the variable that it
// sets; variables of options that are not given keep their value.
class CommandLine {
 public:
  // `usage` follows the program's name in the help; `summary` is a sentence about the program.
  CommandLine(std::string program, std::string usage, std::string summary);

  // An option with one value; the last one counts. `placeholder` says in the help what it takes.
  template <class T>
  void option(std::string name, std::string placeholder, T& into, std::string help) {
    add({std::move(name), std::move(placeholder), std::move(help), true,
         [&into](std::string_view text) { return parse_value(text, into); }});
  }
  // An option that may be given several times.
  void repeated(std::string name, std::string placeholder, std::vector<std::string>& into,
                std::string help);
  // An option without value.
  void flag(std::string name, bool& into, std::string help);
  // An option whose value is one of a few words.
  template <class T, class Into>
  void choice(std::string name, std::vector<std::pair<std::string, T>> words, Into& into,
              std::string help) {
    std::string placeholder;
    for (const auto& [word, value] : words) placeholder += (placeholder.empty() ? "" : "|") + word;
    add({std::move(name), std::move(placeholder), std::move(help), true,
         [words = std::move(words), &into](std::string_view text) {
           for (const auto& [word, value] : words) {
             if (word != text) continue;
             into = value;
             return true;
           }
           return false;
         }});
  }

  // Reads the arguments. Returns the exit code if the program is to end: 0 after --help, which is
  // printed to stdout, 2 after an error, which is one line on stderr.
  std::optional<int> parse(int argc, char** argv);

  // Reports a combination of options that makes no sense; returns the exit code, 2.
  int wrong(const std::string& message) const;
  // Reports that something failed; returns the exit code, 1.
  int failed(const std::string& message) const;
  int failed(const quire::Status& status) const;

  const std::string& program() const { return program_; }

 private:
  struct Option {
    std::string name;
    std::string placeholder;
    std::string help;
    bool takes_value = true;
    std::function<bool(std::string_view)> set;
  };

  int report(const std::string& message, int exit_code) const;
  void add(Option option) { options_.push_back(std::move(option)); }
  const Option* find(std::string_view name) const;
  void print_help() const;

  std::string program_, usage_, summary_;
  std::vector<Option> options_;
};

}  // namespace examples
