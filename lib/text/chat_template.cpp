#include "text/chat_template.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/error.h"
#include "text/jinja/evaluator.h"
#include "text/jinja/functions.h"
#include "text/jinja/lexer.h"
#include "text/jinja/parser.h"
#include "text/jinja/unicode.h"
#include "text/jinja/variables.h"

namespace quire::text {

namespace {

// Larger than any real template by far; the parsed form takes about a hundred times as much.
constexpr std::size_t kMaxSourceBytes = 4 << 20;

// The Status of a failure, with the line and column (in characters) of its place, both from 1.
Status located(const jinja::Failure& failure, std::string_view source, std::size_t offset) {
  std::string_view before = source.substr(0, std::min(offset, source.size()));
  auto line = std::count(before.begin(), before.end(), '\n') + 1;
  std::size_t newline = before.rfind('\n');
  std::size_t start = newline == before.npos ? 0 : newline + 1;
  return error(failure.code, "chat template: line {}, column {}: {}", line,
               jinja::count_characters(before.substr(start)) + 1, failure.message);
}

}  // namespace

struct ChatTemplate::Impl {
  std::string source;  // with normalized newlines
  jinja::Program program;
};

ChatTemplate::ChatTemplate(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;
ChatTemplate::~ChatTemplate() = default;

Result<ChatTemplate> ChatTemplate::parse(std::string_view source) {
  return guarded("chat template", [&]() -> Result<ChatTemplate> {
    if (source.size() > kMaxSourceBytes) {
      return error(StatusCode::unsupported, "chat template: {} bytes are more than {}",
                   source.size(), kMaxSourceBytes);
    }
    auto impl = std::make_unique<Impl>();
    impl->source = jinja::normalize_newlines(source);
    try {
      impl->program = jinja::parse_template(impl->source);
    } catch (const jinja::SyntaxFailure& syntax) {
      return located(syntax.failure, impl->source, syntax.offset);
    }
    return ChatTemplate(std::move(impl));
  });
}

namespace {

std::vector<RenderedPiece> pieces_of(const jinja::TracedText& text) {
  std::vector<RenderedPiece> pieces;
  text.for_each_run([&](std::string_view bytes, jinja::Trust trust) {
    pieces.push_back({std::string(bytes), trust == jinja::Trust::trusted});
  });
  return pieces;
}

void define_variables(jinja::Runtime& runtime, jinja::Evaluator& evaluator,
                      const JsonObject& variables) {
  for (const jinja::GlobalFunction& global : jinja::global_functions()) {
    evaluator.define(global.name, global.function);
  }
  for (const auto& [name, value] : variables) {
    bool is_token = value.string() && name.ends_with("_token");
    auto trust = is_token ? jinja::Trust::trusted : jinja::Trust::untrusted;
    evaluator.define(name, jinja::from_json(runtime, value, trust));
  }
}

}  // namespace

Result<std::vector<RenderedPiece>> ChatTemplate::render(const Json& variables, std::int64_t now,
                                                        const TemplateBudget& budget) const {
  return guarded("chat template", [&]() -> Result<std::vector<RenderedPiece>> {
    const JsonObject* members = variables.object();
    if (!members) {
      return error(StatusCode::invalid_argument, "chat template: the variables are no object");
    }
    jinja::Runtime runtime(budget, now);
    std::size_t offset = 0;
    try {
      jinja::Evaluator evaluator(impl_->program, runtime);
      try {
        define_variables(runtime, evaluator, *members);
        return pieces_of(evaluator.run());
      } catch (const jinja::Failure&) {
        offset = evaluator.offset();
        throw;
      }
    } catch (const jinja::Failure& failure) {
      return located(failure, impl_->source, offset);
    }
  });
}

}  // namespace quire::text
