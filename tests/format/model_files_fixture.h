#pragma once

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/json.h"
#include "catch.h"
#include "check_contains.h"
#include "format/model_files.h"
#include "gguf_writer.h"
#include "test_files.h"

// What the tests of opening a model have in common.
namespace quire::format::test {

inline std::string refused(const ModelSource& source, StatusCode code = StatusCode::malformed,
                           ModelParts parts = ModelParts::everything) {
  const Result<ModelFiles> model = ModelFiles::open(source, parts);
  REQUIRE_FALSE(model.ok());
  CHECK(model.status().code() == code);
  return model.status().message();
}

inline bool same(const TensorView& a, const TensorView& b) {
  return a.name == b.name && a.type == b.type && a.dimensions == b.dimensions &&
         a.shape == b.shape &&
         std::equal(a.bytes.begin(), a.bytes.end(), b.bytes.begin(), b.bytes.end());
}

inline bool same_tensors(const ModelFiles& a, const ModelFiles& b) {
  return std::equal(a.tensors().begin(), a.tensors().end(), b.tensors().begin(), b.tensors().end(),
                    same);
}

inline CallbackModel callback_of(const std::string& bytes) {
  return {bytes.size(), [&bytes](std::uint64_t offset, std::span<std::byte> into) {
            if (offset > bytes.size() || into.size() > bytes.size() - offset) return false;
            std::memcpy(into.data(), bytes.data() + offset, into.size());
            return true;
          }};
}

inline void replace_in_file(const std::string& path, const std::string& from,
                            const std::string& to) {
  std::string text = read_file(path);
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  text.replace(at, from.size(), to);
  std::ofstream(path, std::ios::binary) << text;
}

}  // namespace quire::format::test
