#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <quire/status.h>

namespace quire::text {

// A range of bytes of a text.
struct TextRange {
  std::size_t begin, end;
  std::size_t size() const { return end - begin; }
};

// A pre-tokenizer's regular expression in the dialect of tokenizer.json (Oniguruma), run by PCRE2
// with Unicode properties. Immutable: safe from any thread.
class SplitPattern {
 public:
  static Result<SplitPattern> compile(std::string_view pattern);
  // A pattern that matches `text` itself.
  static Result<SplitPattern> literal(std::string_view text);
  SplitPattern(SplitPattern&&) noexcept;
  SplitPattern& operator=(SplitPattern&&) noexcept;
  ~SplitPattern();

  // Appends the matches in `text` (well-formed UTF-8), left to right, without overlap; look-around
  // sees nothing outside of it. Bounded work: resource_exhausted when the pattern backtracks more.
  Status find_all(std::string_view text, std::vector<TextRange>& matches) const;

 private:
  struct Code;
  explicit SplitPattern(std::unique_ptr<Code> code);
  std::unique_ptr<Code> code_;
};

}  // namespace quire::text
