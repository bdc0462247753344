#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <quire/export.h>
#include <quire/request.h>
#include <quire/status.h>

namespace quire {

// Why an answer ended.
enum class FinishReason {
  none,       // it goes on
  end,        // the model chose one of its end tokens
  stop,       // a stop string or stop token of the request
  length,     // max_tokens, or the context is full
  cancelled,  // `cancel`, or the engine thread was destroyed
  error,      // see TokenEvent::status
};

// Lower-case name, such as "length"; a static string.
QUIRE_EXPORT const char* to_string(FinishReason reason) noexcept;

// Log-probability of one token under the model's own distribution: natural logarithm of the
// softmax of the raw logits over the whole vocabulary, before any sampling parameter.
struct TokenLogprob {
  std::int32_t id = 0;
  std::optional<float> logprob;                     // unset for the first token of a prompt
  std::vector<std::pair<std::int32_t, float>> top;  // most likely first; k entries
};

// What a request cost; on its last event.
struct RequestReport {
  int prompt_tokens = 0;
  int cached_tokens = 0;           // of them, found in the prefix cache
  int generated_tokens = 0;        // of all answers
  double queued_seconds = 0;       // submit to the first pass
  double prefill_seconds = 0;      // first pass to the first token
  double decode_seconds = 0;       // first token to the end
  double first_token_seconds = 0;  // submit to the first token
  int preemptions = 0;             // times it lost its pages to another request
  int bypasses = 0;                // times a later request was admitted before it
};

// A piece of an answer. A value: it stays valid whatever the engine does next.
struct TokenEvent {
  RequestId request = 0;
  int choice = 0;                      // 0 ... n - 1
  std::string text;                    // whole UTF-8 characters, never part of a stop string
  std::vector<std::int32_t> tokens;    // ids chosen since the last event (at most one a pass)
  std::vector<TokenLogprob> logprobs;  // one for each of `tokens`, if asked for
  std::vector<TokenLogprob> prompt_logprobs;  // once, before the first token, if asked for

  bool finished = false;  // the last event of this choice
  FinishReason finish_reason = FinishReason::none;
  std::string stop_match;               // the stop string that matched, if one did
  Status status;                        // why, if finish_reason is error
  std::uint64_t seed = 0;               // the seed in use
  std::optional<RequestReport> report;  // on the last event of the request
};

// All of one answer, as `Engine::generate` returns it.
struct Answer {
  std::string text;
  std::vector<std::int32_t> tokens;
  std::vector<TokenLogprob> logprobs;
  FinishReason finish_reason = FinishReason::none;
  std::string stop_match;
};

// What `Engine::generate` returns: the first answer's text for convenience, and all n of them.
struct Generation {
  std::string text;
  std::vector<Answer> choices;
  std::vector<TokenLogprob> prompt_logprobs;
  std::uint64_t seed = 0;
  RequestReport report;
};

}  // namespace quire
