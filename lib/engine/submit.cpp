#include <algorithm>
#include <random>

#include "base/error.h"
#include "engine/engine_impl.h"
#include "engine/request_check.h"

namespace quire {
namespace {

std::uint64_t random_seed() {
  std::random_device device;
  return std::uint64_t{device()} << 32 | device();
}

Status check_prompt(const std::vector<std::int32_t>& ids, int vocabulary) {
  for (std::int32_t id : ids) {
    if (id < 0 || id >= vocabulary) {
      return error(StatusCode::malformed,
                   "request refused: the tokenizer gives token {}, the model has {}", id,
                   vocabulary);
    }
  }
  return {};
}

// The log-probabilities of a prompt are held until its first token.
Status check_logprob_memory(const Request& request, std::size_t prompt_tokens) {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 30;
  const auto k = static_cast<std::uint64_t>(request.prompt_logprobs.value_or(0));
  const std::uint64_t bytes = k * prompt_tokens * sizeof(std::pair<std::int32_t, float>);
  if (bytes <= kMost) return {};
  return error(StatusCode::resource_exhausted,
               "request refused: prompt_logprobs {} of {} tokens take {} bytes, the most is {}", k,
               prompt_tokens, bytes, kMost);
}

}  // namespace

Result<std::vector<std::int32_t>> Engine::Impl::encode_prompt(const Request& request) const {
  if (!request.tokens.empty()) return request.tokens;
  if (!request.messages.empty() || !request.template_json.empty()) {
    TemplateOptions options;
    options.variables_json = request.template_json;
    return tokenizer->encode_chat(request.messages, options);
  }
  EncodeOptions options;
  options.parse_special = request.parse_special;
  return tokenizer->encode(request.prompt, options);
}

Result<std::unique_ptr<AcceptedRequest>> Engine::Impl::make_live(const Request& request,
                                                                 std::vector<std::int32_t> prompt) {
  auto live = std::make_unique<AcceptedRequest>();
  const SamplingParams& p = request.sampling;
  live->params.temperature = p.temperature.value_or(defaults.temperature.value_or(1.0f));
  live->params.top_k = p.top_k.value_or(defaults.top_k.value_or(0));
  live->params.top_p = p.top_p.value_or(defaults.top_p.value_or(1.0f));
  live->params.min_p = p.min_p.value_or(defaults.min_p.value_or(0.0f));
  live->params.repetition_penalty =
      p.repetition_penalty.value_or(defaults.repetition_penalty.value_or(1.0f));
  live->params.frequency_penalty = p.frequency_penalty;
  live->params.presence_penalty = p.presence_penalty;
  live->bias = p.logit_bias;
  live->allowed = p.allowed_tokens;
  live->banned = p.banned_tokens;
  // Text cannot come from rows that are no token; a caller who works with ids may want them.
  if (request.tokens.empty()) {
    live->banned.insert(live->banned.end(), padding_ids.begin(), padding_ids.end());
  }
  live->min_tokens = p.min_tokens;
  if (!p.ignore_eos) live->end_ids = text->tokenizer->end_tokens();
  live->stop_ids = request.stop_token_ids;
  // A stop string that is the text of a control token: the token itself stops, it has no text.
  for (const std::string& stop : request.stop) {
    auto ids = text->tokenizer->encode(stop, true);
    if (ids && ids->size() == 1 && text->tokenizer->is_special(ids->front())) {
      live->stop_ids.push_back(ids->front());
    }
  }
  live->banned_with_end = live->banned;
  for (const auto* ids : {&live->end_ids, &live->stop_ids}) {
    live->banned_with_end.insert(live->banned_with_end.end(), ids->begin(), ids->end());
  }
  live->seed = p.seed ? *p.seed : random_seed();
  live->logprobs = request.logprobs.value_or(-1);
  live->prompt_logprobs = request.prompt_logprobs.value_or(-1);
  live->prompt = std::move(prompt);
  if (live->prompt_logprobs >= 0) {
    live->prompt_results.resize(live->prompt.size());
    for (std::size_t i = 0; i < live->prompt.size(); ++i)
      live->prompt_results[i].id = live->prompt[i];
  }
  for (int i = 0; i < request.n; ++i) {
    live->choices.push_back({AnswerText(*text->tokenizer, request.stop), {}, false});
  }
  live->last_events.resize(live->choices.size());
  return live;
}

Result<RequestId> Engine::Impl::submit(Request request) {
  const int vocabulary = model->config.vocabulary;
  if (Status status = check_request(request, vocabulary); !status.ok()) return status;
  auto prompt = encode_prompt(request);
  if (!prompt) return prompt.status();
  if (prompt->empty()) {
    return Status(StatusCode::invalid_argument,
                  "request refused: the prompt is empty and the model has no token to begin with");
  }
  const long long context = memory.limits.context;
  const auto length = static_cast<long long>(prompt->size());
  const long long room = context - length;
  if (room < (request.max_tokens ? *request.max_tokens : 1)) {
    return error(StatusCode::resource_exhausted,
                 "request refused: prompt of {} tokens and {} to generate, context is {}", length,
                 request.max_tokens.value_or(1), context);
  }
  // A folder's tokenizer may know more tokens than its model.
  if (Status status = check_prompt(*prompt, vocabulary); !status.ok()) return status;
  if (Status status = check_logprob_memory(request, prompt->size()); !status.ok()) return status;

  PendingRequest pending;
  BatchRequest& batch = pending.batch;
  batch.prompt = *prompt;
  batch.n = request.n;
  batch.priority = request.priority;
  batch.tenant = request.tenant;
  batch.use_prefix_cache = request.use_prefix_cache;
  batch.prompt_logits = request.prompt_logprobs.has_value();
  batch.max_tokens = request.max_tokens.value_or(static_cast<int>(room));
  if (!request.max_tokens) batch.max_tokens = most_tokens_that_fit(batch);
  if (Status status = batcher->can_ever_fit(batch); !status.ok()) return status;
  const int original = model->config.original_context;
  batch.rope_choice = model->config.has_long_rope() && length + batch.max_tokens > original ? 1 : 0;

  auto live = make_live(request, std::move(*prompt));
  if (!live) return live.status();
  pending.live = std::move(*live);
  pending.live->max_tokens = batch.max_tokens;
  const RequestId id = next_id.fetch_add(1);
  pending.live->id = batch.id = id;
  pending.live->submitted = now();
  ids.add(id);
  Status status = guarded("submit", [&] { return queue.push(id, std::move(pending)); });
  if (status.ok()) return id;
  ids.end(id);
  return status;
}

// What the context leaves, or as much of it as the pages can hold.
int Engine::Impl::most_tokens_that_fit(BatchRequest batch) const {
  int fits = 1, over = batch.max_tokens + 1;
  while (over - fits > 1) {
    batch.max_tokens = fits + (over - fits) / 2;
    (batcher->can_ever_fit(batch).ok() ? fits : over) = batch.max_tokens;
  }
  return fits;
}

bool Engine::Impl::cancel(RequestId id) {
  return queue.remove(id) ? ids.end(id) : ids.cancel(id);
}

}  // namespace quire
