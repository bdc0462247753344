#include "text/jinja/expression_parser.h"

#include <algorithm>
#include <optional>

namespace quire::text::jinja {

namespace {

// Brackets, calls and blocks inside each other.
constexpr int kMaxNesting = 150;

// Operators by how tightly they bind; a right operand binds tighter than its operator.
enum Level { kOr = 1, kAnd, kNot, kCompare, kAdd, kConcat, kMultiply, kPower, kNoOperator = 0 };

std::optional<BinaryOperator> binary_operator(std::string_view symbol) {
  if (symbol == "+") return BinaryOperator::add;
  if (symbol == "-") return BinaryOperator::subtract;
  if (symbol == "*") return BinaryOperator::multiply;
  if (symbol == "/") return BinaryOperator::divide;
  if (symbol == "//") return BinaryOperator::floor_divide;
  if (symbol == "%") return BinaryOperator::modulo;
  if (symbol == "**") return BinaryOperator::power;
  return std::nullopt;
}

std::optional<Comparison> comparison_operator(std::string_view symbol) {
  if (symbol == "==") return Comparison::equal;
  if (symbol == "!=") return Comparison::not_equal;
  if (symbol == "<") return Comparison::less;
  if (symbol == "<=") return Comparison::less_equal;
  if (symbol == ">") return Comparison::greater;
  if (symbol == ">=") return Comparison::greater_equal;
  return std::nullopt;
}

}  // namespace

ExpressionParser::Nesting::Nesting(ExpressionParser& parser) : parser_(parser) {
  if (parser_.nesting_ >= kMaxNesting) {
    parser_.fail_here(fmt::format("more than {} levels of nesting", kMaxNesting));
  }
  ++parser_.nesting_;
}

const Token& ExpressionParser::next() {
  const Token& token = tokens_[at_];
  if (token.kind != TokenKind::end) ++at_;
  return token;
}

bool ExpressionParser::is_symbol(std::string_view symbol) const {
  return current().kind == TokenKind::symbol && current().text == symbol;
}
bool ExpressionParser::is_name(std::string_view name) const {
  return current().kind == TokenKind::name && current().text == name;
}
bool ExpressionParser::skip_symbol(std::string_view symbol) {
  if (!is_symbol(symbol)) return false;
  next();
  return true;
}
bool ExpressionParser::skip_name(std::string_view name) {
  if (!is_name(name)) return false;
  next();
  return true;
}
void ExpressionParser::expect_symbol(std::string_view symbol) {
  if (!skip_symbol(symbol)) fail_unexpected(fmt::format("'{}'", symbol));
}
const Token& ExpressionParser::expect_name(std::string_view what) {
  if (current().kind != TokenKind::name) fail_unexpected(what);
  return next();
}

std::size_t ExpressionParser::intern(const std::string& name) {
  auto [found, is_new] = program_.name_index.emplace(name, program_.names.size());
  if (is_new) program_.names.push_back(name);
  return found->second;
}

void ExpressionParser::fail_here(std::string message) const {
  throw SyntaxFailure{{StatusCode::malformed, std::move(message)}, current().offset};
}

void ExpressionParser::fail_unexpected(std::string_view wanted) const {
  switch (current().kind) {
    case TokenKind::end:
      fail_here(fmt::format("the template ends where {} is wanted", wanted));
    case TokenKind::end_print:
    case TokenKind::end_block:
      fail_here(fmt::format("the tag ends where {} is wanted", wanted));
    default:
      fail_here(fmt::format("found '{}' where {} is wanted", current().text, wanted));
  }
}

Expression* ExpressionParser::make(ExpressionKind kind, std::size_t offset,
                                   std::vector<const Expression*> children) {
  Expression& made = program_.expressions.emplace_back();
  made.kind = kind;
  made.offset = offset;
  made.children = std::move(children);
  return &made;
}

const Expression* ExpressionParser::constant(Constant value, std::size_t offset) {
  Expression* made = make(ExpressionKind::constant, offset);
  made->index = program_.constants.size();
  program_.constants.push_back(std::move(value));
  return made;
}

const Expression* ExpressionParser::expression(Conditional conditional) {
  Nesting nesting(*this);
  const Expression* value = operation(kOr);
  if (conditional == Conditional::forbidden) return value;
  while (is_name("if")) {
    std::size_t offset = next().offset;
    const Expression* condition = operation(kOr);
    const Expression* otherwise = skip_name("else") ? expression() : nullptr;
    value = make(ExpressionKind::conditional, offset, {value, condition, otherwise});
  }
  return value;
}

int ExpressionParser::level_here() const {
  const Token& token = current();
  if (token.kind == TokenKind::name) {
    if (token.text == "or") return kOr;
    if (token.text == "and") return kAnd;
    if (token.text == "in") return kCompare;
    const Token& after = tokens_[std::min(at_ + 1, tokens_.size() - 1)];
    bool not_in = token.text == "not" && after.kind == TokenKind::name && after.text == "in";
    return not_in ? kCompare : kNoOperator;
  }
  if (token.kind != TokenKind::symbol) return kNoOperator;
  if (comparison_operator(token.text)) return kCompare;
  if (token.text == "+" || token.text == "-") return kAdd;
  if (token.text == "~") return kConcat;
  if (token.text == "**") return kPower;
  return binary_operator(token.text) ? kMultiply : kNoOperator;
}

// Operators that bind at least as tightly as `lowest`, and their operands.
const Expression* ExpressionParser::operation(int lowest) {
  const Expression* left;
  if (lowest <= kNot && is_name("not")) {
    Nesting nesting(*this);
    std::size_t offset = next().offset;
    left = make(ExpressionKind::negation, offset, {operation(kNot)});
  } else {
    left = unary(true);
  }
  for (int level = level_here(); level != kNoOperator && level >= lowest; level = level_here()) {
    if (level == kOr) {
      left = n_ary(left, ExpressionKind::any_of, "or", level);
    } else if (level == kAnd) {
      left = n_ary(left, ExpressionKind::all_of, "and", level);
    } else if (level == kConcat) {
      left = n_ary(left, ExpressionKind::concat, "~", level);
    } else if (level == kCompare) {
      left = comparison(left);
    } else {
      const Token& token = next();
      const Expression* right = operation(level + 1);
      Expression* made = make(ExpressionKind::binary, token.offset, {left, right});
      made->operation = *binary_operator(token.text);
      left = made;
    }
  }
  return left;
}

const Expression* ExpressionParser::n_ary(const Expression* first, ExpressionKind kind,
                                          std::string_view word, int level) {
  Expression* made = make(kind, current().offset, {first});
  while (skip_name(word) || skip_symbol(word)) made->children.push_back(operation(level + 1));
  return made;
}

const Expression* ExpressionParser::comparison(const Expression* first) {
  Expression* made = make(ExpressionKind::comparison, current().offset, {first});
  while (level_here() == kCompare) {
    const Token& token = next();
    if (token.text == "not") next();
    made->comparisons.push_back(token.text == "in"    ? Comparison::in
                                : token.text == "not" ? Comparison::not_in
                                                      : *comparison_operator(token.text));
    made->children.push_back(operation(kCompare + 1));
  }
  return made;
}

const Expression* ExpressionParser::unary(bool with_filters) {
  const Expression* result;
  if (is_symbol("-") || is_symbol("+")) {
    Nesting nesting(*this);
    const Token& sign = next();
    auto kind = sign.text == "-" ? ExpressionKind::minus : ExpressionKind::plus;
    result = make(kind, sign.offset, {unary(false)});
  } else {
    result = primary();
  }
  result = postfix(result);
  return with_filters ? filters_and_tests(result) : result;
}

}  // namespace quire::text::jinja
