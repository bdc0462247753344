#include "support/files.h"

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace examples {
namespace {

quire::Result<std::string> read_all(std::FILE* file, const std::string& name) {
  std::string bytes;
  char block[1 << 16];
  while (const std::size_t count = std::fread(block, 1, sizeof block, file)) {
    bytes.append(block, count);
  }
  if (std::ferror(file)) {
    return quire::Status(quire::StatusCode::io_error, name + ": " + std::strerror(errno));
  }
  return bytes;
}

}  // namespace

quire::Result<std::string> read_file(const std::string& path) {
  std::FILE* file = std::fopen(path.c_str(), "rb");
  if (file == nullptr) {
    return quire::Status(quire::StatusCode::not_found, path + ": " + std::strerror(errno));
  }
  quire::Result<std::string> bytes = read_all(file, path);
  std::fclose(file);
  return bytes;
}

quire::Result<std::string> read_standard_input() {
  return read_all(stdin, "standard input");
}

void print(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
}

quire::Status finish_output() {
  const bool flushed = std::fflush(stdout) == 0;
  if (flushed && !std::ferror(stdout)) return {};
  // Of an earlier failure the reason is no longer known.
  return quire::Status(
      quire::StatusCode::io_error,
      std::string("standard output: ") + (flushed ? "cannot be written" : std::strerror(errno)));
}

}  // namespace examples
