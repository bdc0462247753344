#include "support/request_json.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace examples {
namespace {

// Sets `into` if there is something.
template <class From, class Into>
bool take(std::optional<From> from, Into& into) {
  if (from) into = static_cast<Into>(*std::move(from));
  return from.has_value();
}

bool read(const Json& value, std::string& into) {
  return take(value.string(), into);
}
bool read(const Json& value, bool& into) {
  return take(value.boolean(), into);
}
bool read(const Json& value, std::uint64_t& into) {
  return take(value.natural(), into);
}
bool read(const Json& value, float& into) {
  return take(value.number(), into);
}

bool read(const Json& value, int& into) {
  const std::optional<std::int64_t> wide = value.integer();
  if (wide < std::numeric_limits<int>::min() || wide > std::numeric_limits<int>::max()) {
    return false;  // none is less than any
  }
  return take(wide, into);
}

bool read(const Json& value, std::pair<std::int32_t, float>& into) {
  return value.is_array() && value.size() == 2 && read(value[0], into.first) &&
         read(value[1], into.second);
}

template <class T>
bool read(const Json& value, std::vector<T>& into) {
  if (!value.is_array()) return false;
  into.clear();
  for (const Json& element : value.elements()) {
    if (!read(element, into.emplace_back())) return false;
  }
  return true;
}

// {"id": bias, ...} as well as [[id, bias], ...].
bool read_logit_bias(const Json& value, std::vector<std::pair<std::int32_t, float>>& into) {
  if (!value.is_object()) return read(value, into);
  into.clear();
  for (const auto& [key, bias] : value.members()) {
    const quire::Result<Json> id = parse_json(key);
    auto& entry = into.emplace_back();
    if (!id || !read(*id, entry.first) || !read(bias, entry.second)) return false;
  }
  return true;
}

// One string or several.
bool read_stop(const Json& value, std::vector<std::string>& into) {
  if (value.string()) return read(value, into.emplace_back());
  return read(value, into);
}

// null leaves the field unset.
template <class T>
bool read(const Json& value, std::optional<T>& into) {
  if (value.is_null()) return true;
  return read(value, into.emplace());
}

// Reads one field; unset if there is none of that name.
std::optional<bool> read_field(const std::string& name, const Json& value,
                               quire::Request& request) {
  quire::SamplingParams& sampling = request.sampling;
  if (name == "tokens") return read(value, request.tokens);
  if (name == "max_tokens") return read(value, request.max_tokens);
  if (name == "n") return read(value, request.n);
  if (name == "stop") return read_stop(value, request.stop);
  if (name == "stop_token_ids") return read(value, request.stop_token_ids);
  if (name == "logprobs") return read(value, request.logprobs);
  if (name == "prompt_logprobs") return read(value, request.prompt_logprobs);
  if (name == "priority") return read(value, request.priority);
  if (name == "tenant") return read(value, request.tenant);
  if (name == "use_prefix_cache") return read(value, request.use_prefix_cache);
  if (name == "parse_special") return read(value, request.parse_special);
  if (name == "temperature") return read(value, sampling.temperature);
  if (name == "top_k") return read(value, sampling.top_k);
  if (name == "top_p") return read(value, sampling.top_p);
  if (name == "min_p") return read(value, sampling.min_p);
  if (name == "repetition_penalty") return read(value, sampling.repetition_penalty);
  if (name == "frequency_penalty") return read(value, sampling.frequency_penalty);
  if (name == "presence_penalty") return read(value, sampling.presence_penalty);
  if (name == "logit_bias") return read_logit_bias(value, sampling.logit_bias);
  if (name == "banned_tokens") return read(value, sampling.banned_tokens);
  if (name == "allowed_tokens") return read(value, sampling.allowed_tokens);
  if (name == "seed") return read(value, sampling.seed);
  if (name == "min_tokens") return read(value, sampling.min_tokens);
  if (name == "ignore_eos") return read(value, sampling.ignore_eos);
  return std::nullopt;
}

// A message with a role and a text and nothing else.
bool is_plain(const Json& message) {
  return message.size() == 2 && message["role"].string() && message["content"].string();
}

quire::Status wrong(std::string message) {
  return quire::Status(quire::StatusCode::invalid_argument, std::move(message));
}

}  // namespace

quire::Status read_conversation(const Json& value, quire::Request& request) {
  Json variables = value.is_array() ? Json{{"messages", value}} : value;
  if (!variables["messages"].is_array()) {
    return {quire::StatusCode::malformed,
            "expected an array of messages or an object with \"messages\""};
  }
  // Plain messages go as values; a conversation with more in it goes to the template as it is.
  const std::vector<Json> messages = variables["messages"].elements();
  if (!messages.empty() && std::all_of(messages.begin(), messages.end(), is_plain)) {
    for (const Json& message : messages) {
      request.messages.push_back({*message["role"].string(), *message["content"].string()});
    }
    variables.erase("messages");
  }
  if (variables.size() > 0) request.template_json = to_text(variables);
  return {};
}

quire::Status read_request(const Json& value, quire::Request& request) {
  if (!value.is_object()) return wrong("a request is a JSON object");
  const int prompts =
      value.contains("prompt") + value.contains("messages") + value.contains("tokens");
  if (prompts != 1) return wrong("exactly one of prompt, messages and tokens is needed");
  Json conversation = Json::object();
  std::string prompt;
  bool raw = false;
  for (const auto& [name, field] : value.members()) {
    std::optional<bool> good;
    if (name == "id") {
      good = true;
    } else if (name == "prompt") {
      good = read(field, prompt);
    } else if (name == "raw") {
      good = read(field, raw);
    } else if (name == "messages" || name == "tools" || name == "documents") {
      conversation.set(name, field);
      good = true;
    } else if (name == "template") {
      good = field.is_object();
      if (*good) conversation.update(field);
    } else {
      good = read_field(name, field, request);
    }
    if (!good) return wrong("unknown field '" + name + "'");
    if (!*good) return wrong("field '" + name + "': " + to_text(field) + " is of the wrong type");
  }
  if (value.contains("tokens")) return {};
  if (value.contains("prompt") && raw) {
    request.prompt = std::move(prompt);
    return {};
  }
  if (value.contains("prompt")) {
    conversation.set("messages", Json::array({{{"role", "user"}, {"content", prompt}}}));
  }
  return read_conversation(conversation, request);
}

}  // namespace examples
