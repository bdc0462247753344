#pragma once

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "catch.h"
#include "tensor/tensor_view.h"

inline std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

inline std::string test_data(std::string_view name) {
  return std::string(QUIRE_TEST_DATA "/").append(name);
}

inline std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  INFO(path);
  REQUIRE(file.good());
  return {std::istreambuf_iterator<char>(file), {}};
}

// A folder of its own for one test, removed at the end.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::random_device random;
    path_ = std::filesystem::temp_directory_path() / ("quire_format_" + std::to_string(random()));
    std::filesystem::create_directories(path_);
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  std::string path() const { return path_.string(); }
  std::string path(std::string_view name) const { return (path_ / name).string(); }
  std::string write(std::string_view name, std::string_view content) const {
    std::ofstream(path_ / name, std::ios::binary)
        .write(content.data(), static_cast<std::streamsize>(content.size()));
    return path(name);
  }
  // Copies a folder of the test data into this one.
  void copy(std::string_view folder) const {
    std::filesystem::copy(test_data(folder), path_, std::filesystem::copy_options::recursive);
  }

 private:
  std::filesystem::path path_;
};

// Checks what a reader promises of its views: they lie inside the file, and have exactly the bytes
// that type and shape say.
inline void check_views(const std::vector<quire::TensorView>& views,
                        std::span<const std::byte> file) {
  for (const quire::TensorView& view : views) {
    const std::byte* begin = view.bytes.data();
    const bool inside =
        begin >= file.data() && begin <= file.data() + file.size() &&
        view.bytes.size() <= static_cast<std::size_t>(file.data() + file.size() - begin);
    const bool exact = view.bytes.size() == static_cast<std::size_t>(view.rows()) * view.row_size();
    if (!inside || !exact) FAIL("a view that does not fit: " << view.name);
  }
}

// The largest single request to operator new since the last call (largest_allocation.cpp).
std::size_t take_largest_allocation();
