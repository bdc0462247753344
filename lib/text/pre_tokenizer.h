#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <quire/status.h>

#include "text/segment_encoder.h"
#include "text/split_pattern.h"

namespace quire::text {

// What becomes of the matches of a splitting pattern, as tokenizer.json names it.
enum class SplitBehavior { removed, isolated, merged_with_previous, merged_with_next, contiguous };

struct SplitStep {
  SplitPattern pattern;
  SplitBehavior behavior = SplitBehavior::isolated;
  bool invert = false;  // what lies between the matches counts as the matches
};

// Each word that does not start with a space gets one (ByteLevel's add_prefix_space).
struct PrefixSpaceStep {};

// Spaces become `replacement`, which also goes in front.
struct MetaspaceStep {
  enum class Prepend { always, first, never };
  std::string replacement = "\u2581";
  Prepend prepend = Prepend::always;
};

// Each byte becomes the character that spells it in byte-level vocabularies, and back.
struct SpellBytesStep {};
struct UnspellBytesStep {};

using PreTokenizerStep =
    std::variant<SplitStep, PrefixSpaceStep, MetaspaceStep, SpellBytesStep, UnspellBytesStep>;

// Cuts text into the words that byte-pair encoding works on, in steps: each step works on the words
// that the one before made. Immutable: safe from any thread.
class PreTokenizer {
 public:
  PreTokenizer() = default;  // the text is one word
  explicit PreTokenizer(std::vector<PreTokenizerStep> steps) : steps_(std::move(steps)) {}

  // May change the text (prefix spaces); the words are ranges of it, in order, none empty.
  Status split(std::string& text, SegmentPosition position, std::vector<TextRange>& words) const;

 private:
  std::vector<PreTokenizerStep> steps_;
};

}  // namespace quire::text
