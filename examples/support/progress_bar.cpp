#include "support/progress_bar.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace examples {

bool stderr_is_terminal() {
  return isatty(STDERR_FILENO) == 1;
}

ProgressBar::ProgressBar(std::string title)
    : title_(std::move(title)), terminal_(stderr_is_terminal()) {}

ProgressBar::~ProgressBar() {
  if (!shown_.empty()) std::fprintf(stderr, "\r\033[K");
}

void ProgressBar::show(double done, const std::string& note) {
  if (!terminal_) return;
  constexpr int kWidth = 30;
  const int filled = static_cast<int>(std::clamp(done, 0.0, 1.0) * kWidth);
  const std::string line =
      title_ + " [" + std::string(filled, '#') + std::string(kWidth - filled, '.') + "] " + note;
  if (line == shown_) return;
  std::fprintf(stderr, "\r\033[K%s", line.c_str());
  std::fflush(stderr);
  shown_ = line;
}

}  // namespace examples
