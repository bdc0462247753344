#pragma once

#include <string>

namespace examples {

// A line on stderr that fills up; nothing at all when stderr is no terminal.
class ProgressBar {
 public:
  explicit ProgressBar(std::string title);
  ~ProgressBar();  // wipes the line
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  // `done`: 0 ... 1; `note` is printed behind the bar.
  void show(double done, const std::string& note = "");

 private:
  std::string title_;
  std::string shown_;
  bool terminal_;
};

bool stderr_is_terminal();

}  // namespace examples
