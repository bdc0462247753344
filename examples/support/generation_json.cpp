#include "support/generation_json.h"

#include <utility>
#include <vector>

namespace examples {
namespace {

Json logprobs_to_json(const std::vector<quire::TokenLogprob>& logprobs, bool asked_for) {
  if (!asked_for) return nullptr;
  Json list = Json::array();
  for (const quire::TokenLogprob& entry : logprobs) {
    Json top = Json::array();
    for (const auto& [id, logprob] : entry.top) top.push_back(Json::array({id, logprob}));
    list.push_back({{"id", entry.id},
                    {"logprob", entry.logprob ? Json(*entry.logprob) : Json(nullptr)},
                    {"top", std::move(top)}});
  }
  return list;
}

}  // namespace

Json generation_to_json(const quire::Generation& generation, const quire::Request& request) {
  Json choices = Json::array();
  for (const quire::Answer& answer : generation.choices) {
    Json choice = {{"tokens", answer.tokens},
                   {"text", answer.text},
                   {"finish_reason", quire::to_string(answer.finish_reason)},
                   {"logprobs", logprobs_to_json(answer.logprobs, request.logprobs.has_value())}};
    if (!answer.stop_match.empty()) choice.set("stop_match", answer.stop_match);
    choices.push_back(std::move(choice));
  }
  const quire::RequestReport& report = generation.report;
  return {{"choices", std::move(choices)},
          {"prompt_logprobs",
           logprobs_to_json(generation.prompt_logprobs, request.prompt_logprobs.has_value())},
          {"usage",
           {{"prompt_tokens", report.prompt_tokens},
            {"cached_tokens", report.cached_tokens},
            {"completion_tokens", report.generated_tokens}}},
          {"seed", generation.seed}};
}

}  // namespace examples
