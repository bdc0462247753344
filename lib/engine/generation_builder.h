#pragma once

#include <cstddef>
#include <string>
#include <utility>

#include <quire/status.h>
#include <quire/token_event.h>

namespace quire {

// Collects the events of one request into a Generation.
class GenerationBuilder {
 public:
  explicit GenerationBuilder(std::size_t choices) { generation_.choices.resize(choices); }

  void add(TokenEvent event) {
    if (event.choice < 0 || static_cast<std::size_t>(event.choice) >= generation_.choices.size())
      return;
    Answer& answer = generation_.choices[static_cast<std::size_t>(event.choice)];
    answer.text += event.text;
    answer.tokens.insert(answer.tokens.end(), event.tokens.begin(), event.tokens.end());
    for (TokenLogprob& entry : event.logprobs) answer.logprobs.push_back(std::move(entry));
    if (!event.prompt_logprobs.empty())
      generation_.prompt_logprobs = std::move(event.prompt_logprobs);
    generation_.seed = event.seed;
    if (event.finished) {
      answer.finish_reason = event.finish_reason;
      ++finished_;
      answer.stop_match = std::move(event.stop_match);
      if (event.finish_reason == FinishReason::error && status_.ok()) status_ = event.status;
    }
    if (event.report) generation_.report = *event.report;
  }

  // The whole; the first error, if an answer ended with one; `cancelled` if some never ended.
  Result<Generation> finish() {
    if (!status_.ok()) return status_;
    if (finished_ < generation_.choices.size()) {
      return Status(StatusCode::cancelled, "the request was cancelled");
    }
    generation_.text = generation_.choices[0].text;
    return std::move(generation_);
  }

 private:
  Generation generation_;
  std::size_t finished_ = 0;
  Status status_;
};

}  // namespace quire
