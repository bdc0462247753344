#pragma once

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <quire/status.h>

#include "text/split_pattern.h"

namespace quire::text {

// Unicode normalisation forms (UAX #15).
enum class NormalizationForm { nfc, nfd, nfkc, nfkd };

// Each match of the pattern becomes `content`.
struct ReplaceStep {
  SplitPattern pattern;
  std::string content;
};

// Goes in front of a text that is not empty.
struct PrependStep {
  std::string content;
};

using NormalizerStep = std::variant<NormalizationForm, ReplaceStep, PrependStep>;

// What happens to a text before it is split, in order. Immutable: safe from any thread.
class Normalizer {
 public:
  Normalizer() = default;  // nothing
  explicit Normalizer(std::vector<NormalizerStep> steps) : steps_(std::move(steps)) {}

  // `text` is well-formed UTF-8 and stays so.
  Status apply(std::string& text) const;

 private:
  std::vector<NormalizerStep> steps_;
};

}  // namespace quire::text
