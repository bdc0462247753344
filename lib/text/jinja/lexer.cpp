#include "text/jinja/lexer.h"

#include <algorithm>
#include <array>
#include <optional>

#include "text/jinja/string_literal.h"
#include "text/jinja/unicode.h"

namespace quire::text::jinja {

std::string normalize_newlines(std::string_view source) {
  std::string result;
  result.reserve(source.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      result += source[i];
    } else {
      result += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    }
  }
  if (!result.empty() && result.back() == '\n') result.pop_back();
  return result;
}

namespace {

bool is_name_start(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         static_cast<unsigned char>(c) >= 0x80;
}
bool is_digit_byte(char c) {
  return c >= '0' && c <= '9';
}
bool is_name_byte(char c) {
  return is_name_start(c) || is_digit_byte(c);
}

constexpr std::array<std::string_view, 25> kSymbols = {
    "**", "//", "==", "!=", ">=", "<=", "+", "-", "*", "/", "%", "~", "(",
    ")",  "[",  "]",  "{",  "}",  ">",  "<", "=", ".", ":", "|", ","};

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(source) {}

  std::vector<Token> run() {
    while (at_ < source_.size()) text_and_tag();
    add(TokenKind::end, "", source_.size());
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void fail_at(std::size_t offset, std::string message) const {
    throw SyntaxFailure{{StatusCode::malformed, std::move(message)}, offset};
  }
  char peek(std::size_t offset) const { return offset < source_.size() ? source_[offset] : '\0'; }
  void add(TokenKind kind, std::string_view text, std::size_t offset) {
    tokens_.push_back({kind, std::string(text), offset});
  }
  void skip_space() { at_ += leading_space(source_.substr(at_)); }

  // The next "{{", "{%" or "{#".
  std::size_t find_tag(std::size_t from) const {
    for (std::size_t at = source_.find('{', from); at != source_.npos;
         at = source_.find('{', at + 1)) {
      char next = peek(at + 1);
      if (next == '{' || next == '%' || next == '#') return at;
    }
    return source_.npos;
  }

  // Text up to a tag whose sign is `sign` ('-', '+' or 0), with white space before the tag removed
  // as the sign, or lstrip_blocks, wants it.
  std::string_view strip_before(std::string_view text, char sign, bool print) const {
    if (sign == '-') return text.substr(0, text.size() - trailing_space(text));
    if (sign == '+' || print) return text;
    std::size_t newline = text.rfind('\n');
    std::size_t line = newline == text.npos ? 0 : newline + 1;
    if (line == 0 && !line_start_) return text;
    return leading_space(text.substr(line)) == text.size() - line ? text.substr(0, line) : text;
  }

  void text_and_tag() {
    std::size_t start = at_;
    std::size_t tag = find_tag(at_);
    if (tag == source_.npos) {
      add(TokenKind::data, source_.substr(start), start);
      at_ = source_.size();
      return;
    }
    char kind = source_[tag + 1];
    char sign = peek(tag + 2) == '-' || peek(tag + 2) == '+' ? source_[tag + 2] : '\0';
    std::string_view text = strip_before(source_.substr(start, tag - start), sign, kind == '{');
    if (!text.empty()) add(TokenKind::data, text, start);
    line_start_ = false;
    at_ = tag + 2 + (sign != '\0');
    if (kind == '#') return comment(tag);
    if (kind == '%' && raw_block(tag)) return;
    add(kind == '{' ? TokenKind::begin_print : TokenKind::begin_block, "", tag);
    inside_tag(tag, kind == '{' ? '}' : '%');
  }

  // After the end of a block or comment: its sign removes white space, trim_blocks one newline.
  void after_block(char sign) {
    std::size_t start = at_;
    if (sign == '-') {
      skip_space();
    } else if (sign != '+' && peek(at_) == '\n') {
      ++at_;
    }
    line_start_ = at_ > start && source_[at_ - 1] == '\n';
  }

  void comment(std::size_t tag) {
    // The sign of "{#-#}" belongs to the start.
    std::size_t end = source_.find("#}", at_);
    if (end == source_.npos) fail_at(tag, "a comment is not closed with '#}'");
    char sign = end > at_ ? source_[end - 1] : '\0';
    at_ = end + 2;
    after_block(sign);
  }

  // Whether `name` stands at `at`, as a whole word; then at is behind it and the space after it.
  bool word(std::size_t& at, std::string_view name) const {
    std::size_t p = at + leading_space(source_.substr(at));
    if (source_.substr(p, name.size()) != name) return false;
    p += name.size();
    at = p + leading_space(source_.substr(p));
    return true;
  }

  bool raw_block(std::size_t tag) {
    std::size_t at = at_;
    if (!word(at, "raw")) return false;
    char sign = peek(at) == '-' ? '-' : '\0';
    at += sign != '\0';
    if (source_.substr(at, 2) != "%}") return false;
    at_ = at + 2;
    if (sign == '-') skip_space();
    std::size_t start = at_;
    for (std::size_t end = source_.find("{%", at_); end != source_.npos;
         end = source_.find("{%", end + 1)) {
      std::size_t p = end + 2;
      char before = peek(p) == '-' || peek(p) == '+' ? source_[p] : '\0';
      p += before != '\0';
      if (!word(p, "endraw")) continue;
      char after = peek(p) == '-' || peek(p) == '+' ? source_[p] : '\0';
      p += after != '\0';
      if (source_.substr(p, 2) != "%}") continue;
      std::string_view text = strip_before(source_.substr(start, end - start), before, false);
      if (!text.empty()) add(TokenKind::data, text, start);
      at_ = p + 2;
      after_block(after);
      return true;
    }
    fail_at(tag, "a raw block is not closed with '{% endraw %}'");
  }

  // The end of the tag at at_, if one is there: "-}}", "}}", "-%}", "+%}" or "%}".
  bool end_of_tag(char closer) {
    char sign = peek(at_) == '-' || (closer == '%' && peek(at_) == '+') ? source_[at_] : '\0';
    std::size_t at = at_ + (sign != '\0');
    if (peek(at) != closer || peek(at + 1) != '}') return false;
    add(closer == '}' ? TokenKind::end_print : TokenKind::end_block, "", at_);
    at_ = at + 2;
    if (closer == '%') {
      after_block(sign);
    } else if (sign == '-') {
      skip_space();
    }
    return true;
  }

  void inside_tag(std::size_t tag, char closer) {
    std::string open;  // brackets not yet closed: "}}" may then close two dicts
    while (true) {
      skip_space();
      if (at_ >= source_.size()) fail_at(tag, "a tag is not closed");
      if (open.empty() && end_of_tag(closer)) return;
      char c = source_[at_];
      if (is_name_start(c)) {
        std::size_t start = at_;
        while (is_name_byte(peek(at_))) ++at_;
        add(TokenKind::name, source_.substr(start, at_ - start), start);
      } else if (is_digit_byte(c)) {
        number();
      } else if (c == '\'' || c == '"') {
        string(c);
      } else {
        symbol(open);
      }
    }
  }

  std::size_t digits(std::size_t at) const {
    while (is_digit_byte(peek(at)) || (peek(at) == '_' && is_digit_byte(peek(at + 1)))) ++at;
    return at;
  }

  void number() {
    std::size_t start = at_;
    char base = static_cast<char>(peek(at_ + 1) | 0x20);
    if (peek(at_) == '0' && (base == 'x' || base == 'o' || base == 'b')) {
      at_ += 2;
      while (is_name_byte(peek(at_))) ++at_;
      return add(TokenKind::integer, source_.substr(start, at_ - start), start);
    }
    at_ = digits(at_);
    bool real = false;
    bool after_dot = start > 0 && source_[start - 1] == '.';
    if (!after_dot && peek(at_) == '.' && is_digit_byte(peek(at_ + 1))) {
      real = true;
      at_ = digits(at_ + 1);
    }
    std::size_t exponent = at_ + 1;
    if (peek(exponent) == '+' || peek(exponent) == '-') ++exponent;
    if (!after_dot && (peek(at_) | 0x20) == 'e' && is_digit_byte(peek(exponent))) {
      real = true;
      at_ = digits(exponent);
    }
    add(real ? TokenKind::real : TokenKind::integer, source_.substr(start, at_ - start), start);
  }

  void string(char quote) {
    std::size_t start = at_++;
    while (at_ < source_.size() && source_[at_] != quote) at_ += source_[at_] == '\\' ? 2 : 1;
    if (at_ >= source_.size()) fail_at(start, "a string is not closed");
    auto decoded = decode_string_literal(source_.substr(start + 1, at_ - start - 1));
    if (!decoded) fail_at(start, "a string has an escape that Python refuses");
    ++at_;
    tokens_.push_back({TokenKind::string, std::move(*decoded), start});
  }

  void symbol(std::string& open) {
    for (std::string_view symbol : kSymbols) {
      if (source_.substr(at_, symbol.size()) != symbol) continue;
      char c = symbol[0];
      if (c == '(' || c == '[' || c == '{') open += c;
      if (c == ')' || c == ']' || c == '}') {
        char wanted = c == ')' ? '(' : c == ']' ? '[' : '{';
        if (open.empty() || open.back() != wanted) fail_at(at_, fmt::format("unexpected '{}'", c));
        open.pop_back();
      }
      add(TokenKind::symbol, symbol, at_);
      at_ += symbol.size();
      return;
    }
    fail_at(at_, "unexpected character");
  }

  std::string_view source_;
  std::size_t at_ = 0;
  bool line_start_ = true;  // the text at at_ begins a line
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokenize(std::string_view source) {
  return Lexer(source).run();
}

}  // namespace quire::text::jinja
