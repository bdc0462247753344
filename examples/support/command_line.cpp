#include "support/command_line.h"

#include <algorithm>
#include <cstdio>

namespace examples {

bool parse_value(std::string_view text, bool& into) {
  if (text != "0" && text != "1") return false;
  into = text == "1";
  return true;
}

bool parse_value(std::string_view text, std::string& into) {
  into = text;
  return true;
}

bool parse_value(std::string_view text, std::vector<std::int32_t>& into) {
  std::vector<std::int32_t> values;
  while (true) {
    const std::size_t comma = text.find(',');
    if (!parse_value(text.substr(0, comma), values.emplace_back())) return false;
    if (comma == std::string_view::npos) break;
    text.remove_prefix(comma + 1);
  }
  into = std::move(values);
  return true;
}

CommandLine::CommandLine(std::string program, std::string usage, std::string summary)
    : program_(std::move(program)), usage_(std::move(usage)), summary_(std::move(summary)) {}

void CommandLine::repeated(std::string name, std::string placeholder,
                           std::vector<std::string>& into, std::string help) {
  add({std::move(name), std::move(placeholder), std::move(help), true,
       [&into](std::string_view text) {
         into.emplace_back(text);
         return true;
       }});
}

void CommandLine::flag(std::string name, bool& into, std::string help) {
  add({std::move(name), "", std::move(help), false, [&into](std::string_view) {
         into = true;
         return true;
       }});
}

std::optional<int> CommandLine::parse(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    const std::size_t equals = argument.find('=');
    const std::string_view name = argument.substr(0, equals);
    if (name == "--help" || name == "-h") {
      print_help();
      return 0;
    }
    const Option* option = find(name);
    if (option == nullptr) {
      return wrong((name.starts_with("-") ? "unknown option " : "unexpected argument ") +
                   std::string(name) + "; --help lists what there is");
    }
    std::string_view value;
    if (equals != std::string_view::npos) {
      if (!option->takes_value) return wrong(option->name + " takes no value");
      value = argument.substr(equals + 1);
    } else if (option->takes_value) {
      if (++i == argc) return wrong(option->name + " needs a value: " + option->placeholder);
      value = argv[i];
    }
    if (!option->set(value)) {
      return wrong(option->name + ": '" + std::string(value) + "' is not a valid " +
                   option->placeholder);
    }
  }
  return std::nullopt;
}

int CommandLine::wrong(const std::string& message) const {
  return report(message, 2);
}

int CommandLine::failed(const std::string& message) const {
  return report(message, 1);
}

int CommandLine::failed(const quire::Status& status) const {
  return report(status.message(), 1);
}

int CommandLine::report(const std::string& message, int exit_code) const {
  std::string line = program_ + ": " + message;
  std::replace(line.begin(), line.end(), '\n', ' ');  // one line, whatever the message quotes
  std::fprintf(stderr, "%s\n", line.c_str());
  return exit_code;
}

const CommandLine::Option* CommandLine::find(std::string_view name) const {
  const auto it = std::find_if(options_.begin(), options_.end(),
                               [name](const Option& option) { return option.name == name; });
  return it == options_.end() ? nullptr : &*it;
}

void CommandLine::print_help() const {
  std::printf("usage: %s %s\n\n%s\n\noptions:\n", program_.c_str(), usage_.c_str(),
              summary_.c_str());
  constexpr int kHelpColumn = 30;
  for (const Option& option : options_) {
    const std::string left = option.name + (option.takes_value ? " " : "") + option.placeholder;
    const bool fits = static_cast<int>(left.size()) < kHelpColumn - 3;
    std::printf("  %-*s%s%s\n", fits ? kHelpColumn - 2 : 0, left.c_str(),
                fits ? "" : ("\n" + std::string(kHelpColumn, ' ')).c_str(), option.help.c_str());
  }
  std::printf("  %-*s%s\n", kHelpColumn - 2, "--help", "print this");
}

}  // namespace examples
