#define PCRE2_CODE_UNIT_WIDTH 8
#include "text/split_pattern.h"

#include <pcre2.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "base/error.h"
#include "text/utf8.h"

namespace quire::text {
namespace {

// White_Space of Unicode 15. PCRE2's \s has U+180E too, which lost the property in Unicode 6.3.
constexpr std::string_view white_space =
    R"(\t-\r\x20\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";

// What \w matches in huggingface/tokenizers, without the brackets.
constexpr std::string_view word_character = R"(\p{L}\p{M}\p{N}\p{Pc})";

// Scripts as Unicode property values; PCRE2's short form means Script_Extensions.
constexpr std::array<std::string_view, 4> scripts = {"Han", "Hangul", "Hiragana", "Katakana"};

// How much a metered search may do: linear in the text.
constexpr std::size_t kStepsOfText = 4096;
constexpr std::size_t kStepsPerByte = 256;

// The same pattern in PCRE2's dialect. Nothing if it uses intersections of classes.
std::optional<std::string> to_pcre2(std::string_view pattern) {
  std::string out;
  bool in_class = false;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c == '\\' && i + 1 < pattern.size()) {
      const char escaped = pattern[++i];
      const bool lower = escaped == 's' || escaped == 'w';
      if (lower || ((escaped == 'S' || escaped == 'W') && !in_class)) {
        const bool space = escaped == 's' || escaped == 'S';
        if (!in_class) out += lower ? "[" : "[^";
        out += space ? white_space : word_character;
        if (!in_class) out += ']';
      } else {
        out += '\\';
        out += escaped;
        const std::string_view rest = pattern.substr(i + 1);
        const auto script = std::find_if(scripts.begin(), scripts.end(), [&](auto name) {
          return rest.starts_with('{') && rest.substr(1).starts_with(name) &&
                 rest.substr(1 + name.size()).starts_with('}');
        });
        if ((escaped == 'p' || escaped == 'P') && script != scripts.end()) {
          out.append("{sc:");
          ++i;
        }
      }
      continue;
    }
    if (in_class && c == '&' && pattern.substr(i).starts_with("&&")) return std::nullopt;
    if (!in_class && c == '[') {
      in_class = true;
      out += c;
      // A first "]" is a literal, also after "^".
      if (pattern.substr(i + 1).starts_with('^')) out += pattern[++i];
      if (pattern.substr(i + 1).starts_with(']')) {
        out += "\\]";
        ++i;
      }
      continue;
    }
    if (in_class && c == ']') in_class = false;
    out += c;
  }
  return out;
}

struct FreeMatchData {
  void operator()(pcre2_match_data* p) const { pcre2_match_data_free(p); }
};
struct FreeMatchContext {
  void operator()(pcre2_match_context* p) const { pcre2_match_context_free(p); }
};

// Counts the steps of a search: one for each item of the pattern that is tried, and one for each
// byte that the search moves by between two of them, forwards or back.
struct Meter {
  std::size_t left;
  std::size_t position = 0;

  static int count(pcre2_callout_block* block, void* data) {
    Meter& meter = *static_cast<Meter*>(data);
    const std::size_t now = block->current_position;
    const std::size_t before = std::exchange(meter.position, now);
    const std::size_t steps = 1 + (now > before ? now - before : before - now);
    if (steps > meter.left) return PCRE2_ERROR_CALLOUT;
    meter.left -= steps;
    return 0;
  }
};

std::string describe(int code) {
  std::array<PCRE2_UCHAR, 160> buffer{};
  if (pcre2_get_error_message(code, buffer.data(), buffer.size()) < 0) return "unknown error";
  return reinterpret_cast<const char*>(buffer.data());
}

}  // namespace

struct SplitPattern::Code {
  pcre2_code* code = nullptr;
  std::string pattern;
  ~Code() { pcre2_code_free(code); }
};

SplitPattern::SplitPattern(std::unique_ptr<Code> code) : code_(std::move(code)) {}
SplitPattern::SplitPattern(SplitPattern&&) noexcept = default;
SplitPattern& SplitPattern::operator=(SplitPattern&&) noexcept = default;
SplitPattern::~SplitPattern() = default;

Result<SplitPattern> SplitPattern::compile(std::string_view pattern) {
  return compile(pattern, 0);
}

Result<SplitPattern> SplitPattern::compile_metered(std::string_view pattern) {
  return compile(pattern, PCRE2_AUTO_CALLOUT);
}

Result<SplitPattern> SplitPattern::compile(std::string_view pattern, std::uint32_t options) {
  const auto translated = to_pcre2(pattern);
  if (!translated) {
    return error(StatusCode::unsupported, "pre-tokenizer pattern \"{}\": intersection of classes",
                 pattern);
  }
  auto code = std::make_unique<Code>();
  code->pattern = pattern;
  int problem = 0;
  PCRE2_SIZE offset = 0;
  code->code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated->data()), translated->size(),
                             PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C | options, &problem,
                             &offset, nullptr);
  if (code->code == nullptr) {
    return error(StatusCode::malformed, "pre-tokenizer pattern \"{}\": at byte {}: {}", pattern,
                 offset, describe(problem));
  }
  // Where there is no JIT the interpreter runs the same pattern.
  pcre2_jit_compile(code->code, PCRE2_JIT_COMPLETE);
  return SplitPattern(std::move(code));
}

Result<SplitPattern> SplitPattern::literal(std::string_view text) {
  std::string pattern;
  for (const char c : text) {
    if (std::string_view("\\^$.[]|()?*+{}-#").find(c) != std::string_view::npos) pattern += '\\';
    pattern += c;
  }
  return compile(pattern);
}

Status SplitPattern::find_all(std::string_view text, std::vector<TextRange>& matches) const {
  const std::unique_ptr<pcre2_match_data, FreeMatchData> data(pcre2_match_data_create(1, nullptr));
  const std::unique_ptr<pcre2_match_context, FreeMatchContext> context(
      pcre2_match_context_create(nullptr));
  if (!data || !context) return error(StatusCode::out_of_memory, "pre-tokenizer: out of memory");
  // PCRE2's own limit is for each match and misses what it scans without backtracking.
  const std::size_t limit = std::min<std::size_t>(1'000'000 + 64 * text.size(), 0xFFFFFFFF);
  pcre2_set_match_limit(context.get(), static_cast<std::uint32_t>(limit));
  const std::size_t budget = kStepsOfText + kStepsPerByte * text.size();
  Meter meter{budget};
  pcre2_set_callout(context.get(), Meter::count, &meter);
  pcre2_set_heap_limit(context.get(), 256 * 1024);  // KiB
  const auto subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  std::size_t at = 0;
  while (at < text.size()) {
    int found = pcre2_match(code_->code, subject, text.size(), at, PCRE2_NO_UTF_CHECK, data.get(),
                            context.get());
    if (found == PCRE2_ERROR_JIT_STACKLIMIT) {
      found = pcre2_match(code_->code, subject, text.size(), at, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT,
                          data.get(), context.get());
    }
    if (found == PCRE2_ERROR_NOMATCH) break;
    if (found == PCRE2_ERROR_CALLOUT) {
      return error(StatusCode::resource_exhausted,
                   "pre-tokenizer pattern \"{}\": at byte {} of {} it has taken more than {} steps",
                   code_->pattern, at, text.size(), budget);
    }
    if (found < 0) {
      return error(StatusCode::resource_exhausted,
                   "pre-tokenizer pattern \"{}\": at byte {} of {}: {}", code_->pattern, at,
                   text.size(), describe(found));
    }
    const PCRE2_SIZE* bounds = pcre2_get_ovector_pointer(data.get());
    // \K can set a start beyond the end or before the last match.
    const TextRange match{bounds[0], bounds[1]};
    if (match.begin < at || match.end < match.begin) {
      return error(StatusCode::unsupported, "pre-tokenizer pattern \"{}\": \\K", code_->pattern);
    }
    matches.push_back(match);
    at = match.end;
    if (match.size() == 0 && at < text.size()) at += next_utf8(text.substr(at)).length;
  }
  return {};
}

}  // namespace quire::text
