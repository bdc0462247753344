#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja/ast.h"
#include "text/jinja/lexer.h"

namespace quire::text::jinja {

// Reads expressions from a list of tokens that ends with `end`. Grammar and precedence are Jinja's.
class ExpressionParser {
 public:
  ExpressionParser(std::vector<Token> tokens, Program& program)
      : tokens_(std::move(tokens)), program_(program) {}

 protected:
  enum class Conditional { allowed, forbidden };  // `a if b else c` at the top

  const Expression* expression(Conditional conditional = Conditional::allowed);
  // Expressions separated by commas are a tuple. `end_word`: a name that ends it.
  const Expression* tuple(Conditional conditional = Conditional::allowed,
                          std::string_view end_word = {});
  // name(arguments) | name(arguments) | ... on `input`, which may be null; at the first name.
  const Expression* filters(const Expression* input);

  const Token& current() const { return tokens_[at_]; }
  const Token& next();
  bool is_symbol(std::string_view symbol) const;
  bool is_name(std::string_view name) const;
  bool skip_symbol(std::string_view symbol);
  bool skip_name(std::string_view name);
  void expect_symbol(std::string_view symbol);
  const Token& expect_name(std::string_view what);
  std::size_t intern(const std::string& name);
  [[noreturn]] void fail_here(std::string message) const;
  [[noreturn]] void fail_unexpected(std::string_view wanted) const;

  // One level of brackets or blocks. Bounds the recursion over a source.
  class Nesting {
   public:
    explicit Nesting(ExpressionParser& parser);
    ~Nesting() { --parser_.nesting_; }
    Nesting(const Nesting&) = delete;

   private:
    ExpressionParser& parser_;
  };

 private:
  friend class Nesting;
  Expression* make(ExpressionKind kind, std::size_t offset,
                   std::vector<const Expression*> children = {});
  const Expression* constant(Constant value, std::size_t offset);
  const Expression* operation(int lowest);
  const Expression* comparison(const Expression* first);
  const Expression* n_ary(const Expression* first, ExpressionKind kind, std::string_view word,
                          int level);
  const Expression* unary(bool with_filters);
  const Expression* primary();
  const Expression* number();
  const Expression* string();
  const Expression* list();
  const Expression* dict();
  const Expression* postfix(const Expression* object);
  const Expression* after_dot(const Expression* object);
  const Expression* subscript(const Expression* object);
  const Expression* filters_and_tests(const Expression* input);
  const Expression* test(const Expression* input);
  void arguments(Expression& call);
  int level_here() const;

  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  int nesting_ = 0;
  Program& program_;
};

}  // namespace quire::text::jinja
