#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <quire/status.h>

#include "tensor/tensor_view.h"

namespace quire::format {

class GgufReader;

// One metadata value of a GGUF file. Numbers keep their signedness; arrays of numbers are widened.
struct GgufValue {
  using Strings = std::vector<std::string_view>;  // into the file's bytes
  std::variant<std::uint64_t, std::int64_t, double, bool, std::string_view,
               std::vector<std::int64_t>, std::vector<double>, std::vector<bool>, Strings>
      value;
};

// The header of a GGUF file (v2, v3): metadata and tensors, everything checked against the bytes.
// Specification: ggml-org/ggml docs/gguf.md. Keeps views into `bytes`, which must outlive it.
class GgufHeader {
 public:
  // `file` is the name for messages. Allocates nothing that the bytes do not back.
  static Result<GgufHeader> parse(std::span<const std::byte> bytes, const std::string& file);

  // The same checks on the first bytes of a file of `total` bytes. With `needs_more` they are ok as
  // far as they go, and the header goes on.
  struct Beginning {
    Status status;
    bool needs_more = false;
  };
  static Beginning check_beginning(std::span<const std::byte> bytes, std::size_t total,
                                   const std::string& file);

  const std::string& file() const { return file_; }
  const GgufValue* find(std::string_view key) const;  // null if absent

  // Typed reads. Absent: the default (or not_found without one). Wrong type or range: malformed,
  // naming file, key, what was found and what was wanted.
  Result<std::int64_t> integer(std::string_view key, std::int64_t low, std::int64_t high) const;
  Result<std::int64_t> integer_or(std::string_view key, std::int64_t low, std::int64_t high,
                                  std::int64_t absent) const;
  Result<double> real_or(std::string_view key, double absent) const;  // finite
  Result<bool> boolean_or(std::string_view key, bool absent) const;
  Result<std::string_view> string(std::string_view key) const;
  Result<std::string_view> string_or(std::string_view key, std::string_view absent) const;
  Result<std::vector<std::string_view>> strings(std::string_view key) const;  // absent: empty
  // absent: empty; f32/f64 only, finite
  Result<std::vector<float>> reals(std::string_view key) const;
  // absent: empty; a single integer counts as a list of one, booleans as 0 and 1: writers differ
  Result<std::vector<std::int64_t>> integers(std::string_view key) const;

  const std::vector<TensorView>& tensors() const { return tensors_; }

 private:
  static Result<GgufHeader> read(GgufReader& reader, std::span<const std::byte> bytes,
                                 const std::string& file);

  std::string file_;
  std::map<std::string, GgufValue, std::less<>> values_;
  std::vector<TensorView> tensors_;
};

}  // namespace quire::format
