#include "text/vocabulary.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace quire::text {
namespace {

constexpr std::array<std::string_view, 16> ending_texts = {
    "<|eot_id|>",
    "<|eom_id|>",
    "<|im_end|>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<end_of_turn>",
    "<turn|>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<end_of_utterance>",
    "<|END_OF_TURN_TOKEN|>",
    "<EOT>",
    "<|user_end|>",
    "[EOS]",
    "<|eot|>",
};

bool has_control(const Vocabulary& vocabulary, std::string_view text) {
  for (std::size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    const auto token = vocabulary.tokens[id];
    if (token.kind == TokenKind::control && token.text == text) return true;
  }
  return false;
}

}  // namespace

void complete_end_tokens(Vocabulary& vocabulary) {
  auto& ends = vocabulary.end_tokens;
  if (vocabulary.eos) ends.push_back(*vocabulary.eos);
  // In gpt-oss's format "<|end|>" closes a message after which the model goes on.
  const bool end_is_inner =
      has_control(vocabulary, "<|return|>") && has_control(vocabulary, "<|call|>");
  for (std::size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    const auto token = vocabulary.tokens[id];
    if (token.kind != TokenKind::control) continue;
    if (end_is_inner && token.text == "<|end|>") continue;
    if (std::find(ending_texts.begin(), ending_texts.end(), token.text) != ending_texts.end()) {
      ends.push_back(static_cast<std::int32_t>(id));
    }
  }
  std::sort(ends.begin(), ends.end());
  ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
}

}  // namespace quire::text
