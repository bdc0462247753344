#include "engine/request_check.h"

#include <cmath>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/error.h"

namespace quire {
namespace {

Status refuse(std::string_view field, const std::string& found, std::string_view wanted) {
  return error(StatusCode::invalid_argument, "request: {} is {}, wanted {}", field, found, wanted);
}

// Written so that NaN fails.
Status check_real(std::string_view field, std::optional<float> value, bool ok,
                  std::string_view wanted) {
  if (!value || (std::isfinite(*value) && ok)) return {};
  return refuse(field, fmt::format("{}", *value), wanted);
}

Status check_ids(std::string_view field, const std::vector<std::int32_t>& ids, int vocabulary) {
  for (std::int32_t id : ids) {
    if (id < 0 || id >= vocabulary) {
      return refuse(field, fmt::format("token {}", id), fmt::format("0 to {}", vocabulary - 1));
    }
  }
  return {};
}

Status check_sampling(const SamplingParams& p, int vocabulary) {
  const Status checks[] = {
      check_real("temperature", p.temperature, p.temperature.value_or(0) >= 0,
                 "a finite number >= 0"),
      check_real("top_p", p.top_p, p.top_p.value_or(1) > 0 && p.top_p.value_or(1) <= 1,
                 "above 0, at most 1"),
      check_real("min_p", p.min_p, p.min_p.value_or(0) >= 0 && p.min_p.value_or(0) <= 1, "0 to 1"),
      check_real("repetition_penalty", p.repetition_penalty, p.repetition_penalty.value_or(1) > 0,
                 "a finite number > 0"),
      check_real("frequency_penalty", p.frequency_penalty, true, "a finite number"),
      check_real("presence_penalty", p.presence_penalty, true, "a finite number"),
      check_ids("banned_tokens", p.banned_tokens, vocabulary),
      check_ids("allowed_tokens", p.allowed_tokens, vocabulary),
  };
  for (const Status& status : checks) {
    if (!status.ok()) return status;
  }
  if (p.top_k && *p.top_k < 0) return refuse("top_k", fmt::format("{}", *p.top_k), ">= 0");
  if (p.min_tokens < 0) return refuse("min_tokens", fmt::format("{}", p.min_tokens), ">= 0");
  for (const auto& [id, bias] : p.logit_bias) {
    if (Status status = check_ids("logit_bias", {id}, vocabulary); !status.ok()) return status;
    if (Status status = check_real("logit_bias", bias, true, "a finite number"); !status.ok())
      return status;
  }
  return {};
}

Status check_count(std::string_view field, std::optional<int> value, int low, int high) {
  if (!value || (*value >= low && *value <= high)) return {};
  return refuse(field, fmt::format("{}", *value), fmt::format("{} to {}", low, high));
}

}  // namespace

Status check_request(const Request& request, int vocabulary) {
  const bool chat = !request.messages.empty() || !request.template_json.empty();
  const int given = int{!request.prompt.empty()} + int{!request.tokens.empty()} + int{chat};
  if (given > 1) {
    return error(
        StatusCode::invalid_argument,
        "request: {} of prompt, tokens and messages (with template_json) are given, wanted one",
        given);
  }
  const Status checks[] = {
      check_count("n", request.n, 1, kMaxChoices),
      check_count("max_tokens", request.max_tokens, 0, 1 << 30),
      check_count("logprobs", request.logprobs, 0, vocabulary),
      check_count("prompt_logprobs", request.prompt_logprobs, 0, vocabulary),
      check_ids("tokens", request.tokens, vocabulary),
      check_ids("stop_token_ids", request.stop_token_ids, vocabulary),
      check_sampling(request.sampling, vocabulary),
  };
  for (const Status& status : checks) {
    if (!status.ok()) return status;
  }
  if (request.stop.size() > 256) {
    return refuse("stop", fmt::format("a list of {} strings", request.stop.size()), "at most 256");
  }
  std::size_t stop_bytes = 0;
  for (const std::string& stop : request.stop) stop_bytes += stop.size();
  if (stop_bytes > 16384) {
    return refuse("stop", fmt::format("{} bytes in all", stop_bytes), "at most 16384");
  }
  for (const std::string& stop : request.stop) {
    if (stop.empty() || stop.size() > 4096) {
      return refuse("stop", fmt::format("a string of {} bytes", stop.size()), "1 to 4096 bytes");
    }
  }
  return {};
}

}  // namespace quire
