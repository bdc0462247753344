#include "engine/answer.h"

#include <utility>

namespace quire {

AnswerText::Delta AnswerText::feed(std::string text, bool match) {
  if (!match) return {std::move(text), {}};
  text::StopMatcher::Output output = matcher_.feed(text);
  return {std::move(output.text), std::move(output.stop)};
}

AnswerText::Delta AnswerText::add(std::int32_t token, bool match) {
  std::string_view piece = tokenizer_->piece(token);
  if (at_start_ && !piece.empty()) {
    at_start_ = false;
    if (tokenizer_->strips_leading_space() && piece.front() == ' ') piece.remove_prefix(1);
  }
  return feed(characters_.feed(piece), match);
}

AnswerText::Delta AnswerText::finish() {
  Delta delta = feed(characters_.finish(), true);
  if (delta.stop) return delta;
  text::StopMatcher::Output rest = matcher_.finish();
  delta.text += rest.text;
  delta.stop = std::move(rest.stop);
  return delta;
}

}  // namespace quire
