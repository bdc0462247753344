#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <quire/token_event.h>

#include "text/detokenizer.h"
#include "text/stop_matcher.h"
#include "text/text_tokenizer.h"

namespace quire {

// The text of one choice as it grows: bytes to characters, stop strings.
class AnswerText {
 public:
  AnswerText(const text::TextTokenizer& tokenizer, const std::vector<std::string>& stops)
      : tokenizer_(&tokenizer), matcher_(stops) {}

  struct Delta {
    std::string text;
    std::optional<std::string> stop;  // matched: the answer has ended
  };
  // `match`: false while stop strings may not end the answer yet (min_tokens).
  Delta add(std::int32_t token, bool match);
  // What is still held back, at the end of the answer.
  Delta finish();

 private:
  Delta feed(std::string text, bool match);
  const text::TextTokenizer* tokenizer_;
  text::Utf8Stream characters_;
  text::StopMatcher matcher_;
  bool at_start_ = true;
};

}  // namespace quire
