#pragma once

#include <cstddef>
#include <cstdint>
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
  // A pattern known to take time linear in the text.
  static Result<SplitPattern> compile(std::string_view pattern);
  // Any other: its steps are counted (which makes it several times slower), and it fails when it
  // takes more of them than so many for each byte of the text.
  static Result<SplitPattern> compile_metered(std::string_view pattern);
  // A pattern that matches `text` itself.
  static Result<SplitPattern> literal(std::string_view text);
  SplitPattern(SplitPattern&&) noexcept;
  SplitPattern& operator=(SplitPattern&&) noexcept;
  ~SplitPattern();

  // Appends the matches in `text` (well-formed UTF-8), left to right, without overlap; look-around
  // sees nothing outside of it. resource_exhausted when the pattern takes more steps than it may.
  Status find_all(std::string_view text, std::vector<TextRange>& matches) const;

 private:
  struct Code;
  explicit SplitPattern(std::unique_ptr<Code> code);
  static Result<SplitPattern> compile(std::string_view pattern, std::uint32_t options);
  std::unique_ptr<Code> code_;
};

}  // namespace quire::text
