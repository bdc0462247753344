#include "support/collector.h"

namespace examples {

void Collector::add(const quire::TokenEvent& event) {
  quire::Answer& answer = generation_.choices.at(event.choice);
  answer.text += event.text;
  answer.tokens.insert(answer.tokens.end(), event.tokens.begin(), event.tokens.end());
  answer.logprobs.insert(answer.logprobs.end(), event.logprobs.begin(), event.logprobs.end());
  if (!event.prompt_logprobs.empty()) generation_.prompt_logprobs = event.prompt_logprobs;
  if (event.choice == 0) generation_.seed = event.seed;
  if (event.report) generation_.report = *event.report;
  if (!event.finished) return;
  ++ended_;
  answer.finish_reason = event.finish_reason;
  answer.stop_match = event.stop_match;
  if (event.finish_reason == quire::FinishReason::error) status_ = event.status;
  if (event.choice == 0) generation_.text = answer.text;
}

}  // namespace examples
