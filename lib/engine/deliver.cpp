#include <algorithm>

#include "base/error.h"
#include "engine/engine_impl.h"

namespace quire {
namespace {

bool contains(const std::vector<std::int32_t>& ids, std::int32_t id) {
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

TokenLogprob logprob_of(std::int32_t id, DrawResult& result) {
  TokenLogprob entry;
  entry.id = id;
  entry.logprob = result.logprob;
  entry.top = std::move(result.top);
  return entry;
}

}  // namespace

void Engine::Impl::accept_prompt_result(AcceptedRequest& request, int position,
                                        DrawResult& result) {
  if (request.prompt_delivered) return;
  auto& entry = request.prompt_results[static_cast<std::size_t>(position)];
  entry = logprob_of(entry.id, result);
}

RequestReport Engine::Impl::report_of(const AcceptedRequest& request) const {
  const double t = now();
  const RequestReport counts = batcher->report(request.id, t);
  RequestReport report;
  report.prompt_tokens = static_cast<int>(request.prompt.size());
  report.cached_tokens = counts.cached_tokens;
  report.preemptions = counts.preemptions;
  report.bypasses = counts.bypasses;
  report.generated_tokens = request.generated;
  const double first_pass = request.first_pass.value_or(t);
  const double first_token = request.first_token.value_or(t);
  report.queued_seconds = first_pass - request.submitted;
  report.prefill_seconds = first_token - first_pass;
  report.decode_seconds = t - first_token;
  report.first_token_seconds = request.first_token ? first_token - request.submitted : 0;
  return report;
}

// The last event of a choice; the report comes with that of the request's last choice.
void Engine::Impl::finish_choice(AcceptedRequest& request, int choice, FinishReason reason,
                                 TokenEvent event) noexcept {
  request.choices[static_cast<std::size_t>(choice)].finished = true;
  event.finished = true;
  event.finish_reason = reason;
  if (request.finished()) event.report = report_of(request);
  const auto last = request.last_events.begin();
  *last = std::move(event);
  outbox.splice(outbox.end(), request.last_events, last);
}

// One chosen token: decides whether the answer ends, and makes its event.
DrawOutcome Engine::Impl::accept_draw(AcceptedRequest& request, int choice, DrawResult& result) {
  Choice& own = request.choices[static_cast<std::size_t>(choice)];
  if (own.finished) return {0, false, true};
  TokenEvent event;
  event.request = request.id;
  event.choice = choice;
  event.seed = request.seed;
  if (!result.status.ok()) {
    event.status = result.status;
    event.text = own.text.finish().text;
    finish_choice(request, choice, FinishReason::error, std::move(event));
    return {0, false, true};
  }
  if (!request.first_token) request.first_token = now();
  const std::int32_t token = result.token;
  own.output.push_back(token);
  ++request.generated;
  event.tokens = {token};
  if (request.logprobs >= 0) event.logprobs.push_back(logprob_of(token, result));
  if (request.prompt_logprobs >= 0 && !request.prompt_delivered) {
    event.prompt_logprobs = std::move(request.prompt_results);
    request.prompt_delivered = true;
  }

  FinishReason reason = FinishReason::none;
  if (contains(request.end_ids, token)) {
    reason = FinishReason::end;
  } else if (contains(request.stop_ids, token)) {
    reason = FinishReason::stop;
    event.stop_match = std::string(text->tokenizer->special_text(token));
  } else {
    const bool match = static_cast<int>(own.output.size()) > request.min_tokens;
    AnswerText::Delta delta = own.text.add(token, match);
    event.text = std::move(delta.text);
    if (delta.stop) {
      reason = FinishReason::stop;
      event.stop_match = std::move(*delta.stop);
    } else if (static_cast<int>(own.output.size()) >= request.max_tokens) {
      reason = FinishReason::length;
    }
  }
  const bool stopped_by_text = reason == FinishReason::stop && !contains(request.stop_ids, token);
  if (reason != FinishReason::none && !stopped_by_text) {
    AnswerText::Delta rest = own.text.finish();
    event.text += rest.text;
    if (rest.stop) event.stop_match = *rest.stop, reason = FinishReason::stop;
  }
  if (reason != FinishReason::none) {
    finish_choice(request, choice, reason, std::move(event));
    return {token, true, true};
  }
  outbox.push_back(std::move(event));
  return {token, true, false};
}

void Engine::Impl::finish_without_tokens(AcceptedRequest& request) {
  for (std::size_t i = 0; i < request.choices.size(); ++i) {
    if (request.choices[i].finished) continue;
    TokenEvent event;
    event.request = request.id;
    event.choice = static_cast<int>(i);
    event.seed = request.seed;
    if (!request.prompt_delivered) {
      event.prompt_logprobs = std::move(request.prompt_results);
      request.prompt_delivered = true;
    }
    finish_choice(request, static_cast<int>(i), FinishReason::length, std::move(event));
  }
}

// Without memory for the whole of `why`, or for text that was held back, the events say less.
void Engine::Impl::end_request_with_error(AcceptedRequest& request, const Status& why) noexcept {
  for (std::size_t i = 0; i < request.choices.size(); ++i) {
    if (request.choices[i].finished) continue;
    TokenEvent event;
    event.request = request.id;
    event.choice = static_cast<int>(i);
    event.seed = request.seed;
    event.status = guarded("an error", [&] { return why; });
    (void)guarded("the end of an answer", [&] {
      event.text = request.choices[i].text.finish().text;
      return Status();
    });
    finish_choice(request, static_cast<int>(i), FinishReason::error, std::move(event));
  }
}

}  // namespace quire
