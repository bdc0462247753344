#include "engine/accepted_request.h"

namespace quire {

DrawArgs AcceptedRequest::draw(int choice, int later) const {
  const Choice& own = choices[static_cast<std::size_t>(choice)];
  const int position = static_cast<int>(own.output.size()) + later;
  DrawArgs args;
  args.params = params;
  args.params.bias = bias;
  args.params.allowed = allowed;
  const bool may_end = position >= min_tokens;
  args.params.banned = may_end ? banned : banned_with_end;
  args.prompt = prompt;
  args.output = own.output;
  args.seed = seed;
  args.choice = choice;
  args.position = position;
  args.logprobs = logprobs;
  return args;
}

DrawArgs AcceptedRequest::prompt_draw(int position) const {
  DrawArgs args;
  args.draw = false;
  args.given = prompt[static_cast<std::size_t>(position)];
  args.logprobs = prompt_logprobs;
  return args;
}

}  // namespace quire
