#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <quire/request.h>
#include <quire/token_event.h>

#include "engine/answer.h"
#include "sampling/draw.h"

namespace quire {

// One of a request's answers while it runs.
struct Choice {
  AnswerText text;
  std::vector<std::int32_t> output;  // ids chosen so far
  bool finished = false;
};

// A request that the engine has accepted: everything that its draws and its text need.
struct AcceptedRequest {
  RequestId id = 0;
  std::vector<std::int32_t> prompt;
  std::vector<Choice> choices;
  int max_tokens = 0;
  int min_tokens = 0;

  DrawParams params;  // spans lead to the vectors below
  std::vector<std::pair<std::int32_t, float>> bias;
  std::vector<std::int32_t> banned;           // always
  std::vector<std::int32_t> banned_with_end;  // until min_tokens: end and stop ids too
  std::vector<std::int32_t> allowed;
  std::vector<std::int32_t> end_ids;   // of the model; empty with ignore_eos
  std::vector<std::int32_t> stop_ids;  // of the request
  std::uint64_t seed = 0;
  int logprobs = -1;
  int prompt_logprobs = -1;
  std::vector<TokenLogprob> prompt_results;  // [prompt]
  bool prompt_delivered = false;

  // Each choice's last event: its memory is taken when the request is accepted, so that every
  // answer can end when there is none left.
  std::list<TokenEvent> last_events;

  // Seconds on the engine's clock; unset until they come.
  double submitted = 0;
  std::optional<double> first_pass, first_token;
  int generated = 0;
  int failures = 0;               // passes that failed under it, one after the other
  std::uint64_t failed_pass = 0;  // the last of them that was counted
  bool cancelled = false;         // kept only while a pass in flight reads it

  bool finished() const {
    for (const Choice& choice : choices) {
      if (!choice.finished) return false;
    }
    return true;
  }
  // The draw of a choice's next token, or (`later` 1) of the token after that, for a request
  // without penalties; its logits are set by the decoder.
  DrawArgs draw(int choice, int later = 0) const;
  // The log-probability of prompt[position], from the logits of the row before it.
  DrawArgs prompt_draw(int position) const;
};

}  // namespace quire
