#include "text/pre_tokenizer.h"

#include <utility>

#include "text/token_spelling.h"

namespace quire::text {
namespace {

// A stretch of a word: a match of the pattern, or what lies between matches.
struct Stretch {
  TextRange range;
  bool match;
};

void join(const std::vector<Stretch>& stretches, SplitBehavior behavior,
          std::vector<TextRange>& words) {
  const std::size_t first = words.size();
  bool previous_match = false;
  for (const Stretch& stretch : stretches) {
    const bool any = words.size() > first;
    bool append_to_last = false;
    switch (behavior) {
      case SplitBehavior::removed:
        if (stretch.match) continue;
        break;
      case SplitBehavior::isolated:
        break;
      case SplitBehavior::merged_with_previous:
        append_to_last = any && stretch.match && !previous_match;
        break;
      case SplitBehavior::merged_with_next:
        append_to_last = any && previous_match && !stretch.match;
        break;
      case SplitBehavior::contiguous:
        append_to_last = any && stretch.match == previous_match;
        break;
    }
    previous_match = stretch.match;
    if (append_to_last) {
      words.back().end = stretch.range.end;
    } else if (stretch.range.size() > 0) {
      words.push_back(stretch.range);
    }
  }
}

Status apply(const SplitStep& step, std::string& text, SegmentPosition,
             std::vector<TextRange>& words) {
  std::vector<TextRange> cut;
  std::vector<TextRange> matches;
  std::vector<Stretch> stretches;
  cut.reserve(words.size());
  for (const TextRange& word : words) {
    matches.clear();
    stretches.clear();
    const std::string_view view(text.data() + word.begin, word.size());
    if (Status status = step.pattern.find_all(view, matches); !status) return status;
    std::size_t at = word.begin;
    for (const TextRange& match : matches) {
      const TextRange range{word.begin + match.begin, word.begin + match.end};
      if (range.begin > at) stretches.push_back({{at, range.begin}, step.invert});
      stretches.push_back({range, !step.invert});
      at = range.end;
    }
    if (at < word.end) stretches.push_back({{at, word.end}, step.invert});
    join(stretches, step.behavior, cut);
  }
  words = std::move(cut);
  return {};
}

// Rebuilds text and words with `edit(word, out)`, which appends the new form of a word.
template <class Edit>
void rewrite(std::string& text, std::vector<TextRange>& words, Edit edit) {
  std::string out;
  out.reserve(text.size() + words.size());
  for (TextRange& word : words) {
    const std::size_t begin = out.size();
    edit(std::string_view(text).substr(word.begin, word.size()), word.begin, out);
    word = {begin, out.size()};
  }
  text = std::move(out);
}

Status apply(const PrefixSpaceStep&, std::string& text, SegmentPosition,
             std::vector<TextRange>& words) {
  rewrite(text, words, [](std::string_view word, std::size_t, std::string& out) {
    if (!word.starts_with(' ')) out += ' ';
    out += word;
  });
  return {};
}

Status apply(const MetaspaceStep& step, std::string& text, SegmentPosition position,
             std::vector<TextRange>& words) {
  using Prepend = MetaspaceStep::Prepend;
  rewrite(text, words, [&](std::string_view word, std::size_t begin, std::string& out) {
    const bool first = begin == 0 && position == SegmentPosition::start_of_text;
    const bool wanted =
        step.prepend == Prepend::always || (step.prepend == Prepend::first && first);
    if (wanted && !word.starts_with(' ') && !word.starts_with(step.replacement)) {
      out += step.replacement;
    }
    for (const char c : word) {
      if (c == ' ') {
        out += step.replacement;
      } else {
        out += c;
      }
    }
  });
  return {};
}

Status apply(const SpellBytesStep&, std::string& text, SegmentPosition,
             std::vector<TextRange>& words) {
  rewrite(text, words, [](std::string_view word, std::size_t, std::string& out) {
    append_byte_level(word, out);
  });
  return {};
}

Status apply(const UnspellBytesStep&, std::string& text, SegmentPosition,
             std::vector<TextRange>& words) {
  rewrite(text, words, [](std::string_view word, std::size_t, std::string& out) {
    if (const auto bytes = bytes_from_byte_level(word)) out += *bytes;
  });
  return {};
}

}  // namespace

Status PreTokenizer::split(std::string& text, SegmentPosition position,
                           std::vector<TextRange>& words) const {
  words.clear();
  if (!text.empty()) words.push_back({0, text.size()});
  for (const PreTokenizerStep& step : steps_) {
    Status status =
        std::visit([&](const auto& s) { return apply(s, text, position, words); }, step);
    if (!status) return status;
  }
  return {};
}

}  // namespace quire::text
