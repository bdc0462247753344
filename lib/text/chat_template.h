#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <quire/status.h>

#include "base/json.h"

namespace quire::text {

// A piece of a rendered conversation. Special tokens are parsed only in trusted pieces.
struct RenderedPiece {
  std::string text;
  bool trusted = true;  // false: came from a string in the caller's messages or variables
};

struct TemplateBudget {
  std::int64_t steps = 5'000'000;  // statements and expressions evaluated
  std::int64_t output_bytes = 64 << 20;
  std::int64_t memory_bytes = 256 << 20;  // of all values made
};

// A chat template in Jinja, compiled once and rendered by a small interpreter of the subset that
// real templates use. Immutable: safe from any thread.
class ChatTemplate {
 public:
  // Errors name line and column: "chat template: line 3, column 14: ...".
  static Result<ChatTemplate> parse(std::string_view source);
  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;
  ~ChatTemplate();

  // `variables` is an object: messages, tools, add_generation_prompt, bos_token, eos_token, ...
  // Top-level strings whose name ends in "_token" (bos_token, eos_token, ...) count as template
  // text; all other strings of `variables` are untrusted, also after slicing, trimming, joining and
  // so on. `now` is in seconds since 1970 (UTC), for strftime_now.
  Result<std::vector<RenderedPiece>> render(const Json& variables, std::int64_t now,
                                            const TemplateBudget& budget = {}) const;

 private:
  struct Impl;
  explicit ChatTemplate(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace quire::text
