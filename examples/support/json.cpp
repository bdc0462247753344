#include "support/json.h"

#include <algorithm>
#include <limits>
#include <stdexcept>

#include "support/files.h"

namespace examples {
namespace {

constexpr int kMaxDepth = 200;

quire::Status malformed(std::string message) {
  return quire::Status(quire::StatusCode::malformed, std::move(message));
}

bool check_depth(int depth, Json::parse_event_t, Json&) {
  if (depth > kMaxDepth) throw std::runtime_error("nested deeper than 200 levels");
  return true;
}

// Where the `count`-th byte is.
std::string place_of(std::string_view text, std::size_t count, std::size_t first_line) {
  const std::string_view before = text.substr(0, count > 0 ? count - 1 : 0);
  const std::size_t line_start = before.rfind('\n') + 1;  // npos + 1 is 0
  const auto lines = static_cast<std::size_t>(std::count(before.begin(), before.end(), '\n'));
  return "line " + std::to_string(first_line + lines) + ", column " +
         std::to_string(before.size() - line_start + 1);
}

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

// A message with a role and a text and nothing else.
bool is_plain(const Json& message) {
  return message.is_object() && message.size() == 2 && message.contains("role") &&
         message["role"].is_string() && message.contains("content") &&
         message["content"].is_string();
}

}  // namespace

quire::Result<Json> parse_json(std::string_view text, std::size_t first_line) {
  try {
    return Json::parse(text, check_depth);
  } catch (const Json::parse_error& error) {
    const std::string_view message = error.what();  // "[...] parse error at ...: what is wrong"
    const std::size_t wrong = message.find(": ");
    return malformed("not JSON: " + place_of(text, error.byte, first_line) +
                     std::string(message.substr(std::min(wrong, message.size()))));
  } catch (const std::exception& error) {
    return malformed(std::string("not JSON: ") + error.what());
  }
}

quire::Result<Json> read_json_file(const std::string& path) {
  const quire::Result<std::string> text = read_file(path);
  if (!text) return text.status();
  quire::Result<Json> value = parse_json(*text);
  if (!value) return malformed(path + ": " + value.status().message());
  return value;
}

std::string to_text(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

quire::Result<std::vector<std::int32_t>> token_ids_from_json(const Json& value) {
  if (!value.is_array()) return malformed("token ids: expected an array of integers");
  std::vector<std::int32_t> ids;
  for (const Json& element : value) {
    constexpr std::int64_t kMax = std::numeric_limits<std::int32_t>::max();
    if (!element.is_number_integer() || element < 0 || element > kMax) {
      return malformed("token ids: " + to_text(element) + " is no token id");
    }
    ids.push_back(element.get<std::int32_t>());
  }
  return ids;
}

quire::Status read_conversation(const Json& value, quire::Request& request) {
  Json variables = value.is_array() ? Json{{"messages", value}} : value;
  if (!variables.is_object() || !variables.contains("messages") ||
      !variables["messages"].is_array()) {
    return malformed("expected an array of messages or an object with \"messages\"");
  }
  // Plain messages go as values; a conversation with more in it goes to the template as it is.
  const Json& messages = variables["messages"];
  bool plain = !messages.empty();
  for (const Json& message : messages) plain = plain && is_plain(message);
  if (plain) {
    for (const Json& message : messages) {
      request.messages.push_back(
          {message["role"].get<std::string>(), message["content"].get<std::string>()});
    }
    variables.erase("messages");
  }
  if (!variables.empty()) request.template_json = to_text(variables);
  return {};
}

Json generation_to_json(const quire::Generation& generation, const quire::Request& request) {
  Json choices = Json::array();
  for (const quire::Answer& answer : generation.choices) {
    Json choice = {{"tokens", answer.tokens},
                   {"text", answer.text},
                   {"finish_reason", quire::to_string(answer.finish_reason)},
                   {"logprobs", logprobs_to_json(answer.logprobs, request.logprobs.has_value())}};
    if (!answer.stop_match.empty()) choice["stop_match"] = answer.stop_match;
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
