#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <quire/sampling_params.h>

namespace quire {

// Names a submitted request; never used twice by one engine.
using RequestId = std::uint64_t;

// One turn of a conversation. `content` is plain text: what looks like a special token in it is
// encoded as text.
struct ChatMessage {
  std::string role;
  std::string content;
};

// What to compute. At most one of `prompt`, `tokens` and `messages` is given; with none the prompt
// is the empty text, which a model with a BOS token can continue. A value: the engine keeps no
// reference to the caller's.
struct Request {
  std::string prompt;                 // text, encoded with the model's own special tokens added
  std::vector<std::int32_t> tokens;   // ids, taken as they are
  std::vector<ChatMessage> messages;  // a conversation, through the model's chat template
  // An object of further template variables ("tools", ...), or "". Its "messages", if it has any,
  // are taken in place of `messages`: they may hold more than a role and a text.
  std::string template_json;

  std::optional<int> max_tokens;  // >= 0; unset: what the context leaves
  int n = 1;                      // 1 ... 64 answers; they share the prompt's pages
  SamplingParams sampling;

  std::vector<std::string> stop;             // strings that end an answer; not delivered
  std::vector<std::int32_t> stop_token_ids;  // ids that end an answer; not delivered as text

  std::optional<int> logprobs;         // report the chosen token's and the k most likely ones
  std::optional<int> prompt_logprobs;  // the same for each prompt token, before the first token

  int priority = 0;              // higher is more urgent
  std::string tenant;            // cached prompts are shared only inside one tenant
  bool use_prefix_cache = true;  // false: read nothing from it, leave nothing in it
  bool parse_special = false;    // `prompt` may name special tokens, such as <|im_end|>
};

}  // namespace quire
