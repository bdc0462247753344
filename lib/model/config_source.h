#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <quire/status.h>

#include "format/model_files.h"

namespace quire::model {

// One setting under both spellings: the GGUF key after "<architecture>.", and the config.json path
// ("rope_parameters/factor"). An empty spelling means that this format does not have it.
struct Key {
  std::string_view gguf;
  std::string_view hf;
};

constexpr std::int64_t kMaxDimension = 1 << 24;  // of widths, heads, vocabularies, contexts

// Reads a model's settings from a GGUF header or a config.json with the same calls. Every error
// names file, key, what was found and what was wanted.
class ConfigSource {
 public:
  explicit ConfigSource(const format::ModelFiles& files);

  bool is_gguf() const { return files_.gguf() != nullptr; }
  const std::string& file() const { return files_.name(); }
  const format::ModelFiles& files() const { return files_; }
  // "llama": general.architecture or model_type.
  Result<std::string> architecture() const;

  bool has(Key key) const;  // present and not null
  Result<std::int64_t> integer(Key key, std::int64_t low, std::int64_t high) const;
  Result<std::int64_t> integer_or(Key key, std::int64_t low, std::int64_t high,
                                  std::int64_t absent) const;
  // A number for each layer, or one for all of them.
  Result<std::vector<std::int64_t>> per_layer(Key key, std::int64_t low, std::int64_t high,
                                              std::int64_t layers) const;
  Result<double> real_or(Key key, double absent) const;  // finite
  Result<bool> boolean_or(Key key, bool absent) const;
  Result<std::string> string_or(Key key, std::string_view absent) const;
  Result<std::vector<double>> reals(Key key) const;         // absent: empty
  Result<std::vector<std::string>> strings(Key key) const;  // absent: empty

  Status wrong(Key key, std::string_view found, std::string_view wanted) const;

 private:
  std::string gguf_key(Key key) const;
  const Json* json(Key key) const;
  const format::ModelFiles& files_;
  std::string prefix_;  // "llama."
};

}  // namespace quire::model
