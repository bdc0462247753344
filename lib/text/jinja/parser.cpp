#include "text/jinja/parser.h"

#include <algorithm>
#include <initializer_list>

#include "text/jinja/expression_parser.h"

namespace quire::text::jinja {

namespace {

class Parser : public ExpressionParser {
 public:
  Parser(std::vector<Token> tokens, Program& program)
      : ExpressionParser(std::move(tokens), program) {}

  Block whole() {
    Block body = block({});
    return body;
  }

 private:
  using Words = std::initializer_list<std::string_view>;

  // Statements up to a tag that starts with one of `ends`, of which "{%" and the word are read; the
  // word is then last_word_. Without `ends`, up to the end of the source.
  Block block(Words ends) {
    Nesting nesting(*this);
    Block body;
    while (true) {
      const Token& token = next();
      switch (token.kind) {
        case TokenKind::end:
          if (ends.size() == 0) return body;
          fail_here(fmt::format("the template ends where '{}' is wanted", *(ends.end() - 1)));
        case TokenKind::data:
          body.push_back({token.offset, DataStatement{token.text}});
          break;
        case TokenKind::begin_print:
          body.push_back(print(token.offset));
          break;
        case TokenKind::begin_block:
          if (std::any_of(ends.begin(), ends.end(), [&](auto end) { return is_name(end); })) {
            last_word_ = next().text;
            return body;
          }
          body.push_back(statement());
          break;
        default:
          fail_unexpected("text or a tag");
      }
    }
  }

  void end_tag() {
    if (current().kind != TokenKind::end_block) fail_unexpected("'%}'");
    next();
  }

  Statement print(std::size_t offset) {
    const Expression* value = require(tuple());
    if (current().kind != TokenKind::end_print) fail_unexpected("'}}'");
    next();
    return {offset, PrintStatement{value}};
  }

  const Expression* require(const Expression* value) {
    if (!value) fail_unexpected("an expression");
    return value;
  }

  Statement statement() {
    std::size_t offset = current().offset;
    const std::string& word = expect_name("the name of a tag").text;
    if (word == "if") return {offset, conditional()};
    if (word == "for") return {offset, loop()};
    if (word == "set") return set(offset);
    if (word == "macro") return {offset, macro()};
    if (word == "call") return {offset, call()};
    if (word == "filter") return {offset, filter()};
    if (word == "with") return {offset, with()};
    if (word == "generation") return {offset, generation()};
    if (word == "break" || word == "continue") {
      if (loops_ == 0) fail_here(fmt::format("'{}' is outside a loop", word));
      end_tag();
      if (word == "break") return {offset, BreakStatement{}};
      return {offset, ContinueStatement{}};
    }
    throw SyntaxFailure{{StatusCode::unsupported, fmt::format("unknown tag '{}'", word)}, offset};
  }

  IfStatement conditional() {
    IfStatement result;
    last_word_ = "if";
    while (last_word_ != "endif") {
      const Expression* condition = nullptr;
      bool otherwise = last_word_ == "else";
      if (!otherwise) condition = require(tuple(Conditional::forbidden));
      end_tag();
      Block body = otherwise ? block({"endif"}) : block({"elif", "else", "endif"});
      result.branches.push_back({condition, std::move(body)});
    }
    end_tag();
    return result;
  }

  ForStatement loop() {
    ForStatement result{};
    result.target = target("in");
    if (!skip_name("in")) fail_unexpected("'in'");
    result.iterable = require(tuple(Conditional::forbidden, "recursive"));
    if (skip_name("if")) result.condition = expression();
    result.recursive = skip_name("recursive");
    end_tag();
    ++loops_;
    result.body = block({"else", "endfor"});
    --loops_;
    end_tag();
    if (last_word_ == "else") {
      result.otherwise = block({"endfor"});
      end_tag();
    }
    return result;
  }

  // name, name.attribute, or several of them separated by commas, perhaps in parentheses.
  Target target(std::string_view end_word = {}) {
    Nesting nesting(*this);
    Target first = single_target();
    if (!is_symbol(",")) return first;
    Target result;
    result.offset = first.offset;
    result.parts.push_back(std::move(first));
    while (skip_symbol(",")) {
      bool ends = current().kind == TokenKind::end_block || is_symbol("=") || is_symbol(")") ||
                  (!end_word.empty() && is_name(end_word));
      if (ends) break;
      result.parts.push_back(single_target());
    }
    return result;
  }

  Target single_target() {
    Target result;
    result.offset = current().offset;
    if (skip_symbol("(")) {
      result = target();
      expect_symbol(")");
      return result;
    }
    result.name = intern(variable_name());
    if (skip_symbol(".")) result.attribute = expect_name("the name of an attribute").text;
    return result;
  }

  const std::string& variable_name() {
    const std::string& name = expect_name("the name of a variable").text;
    for (std::string_view constant : {"true", "True", "false", "False", "none", "None"}) {
      if (name == constant) fail_here(fmt::format("cannot assign to '{}'", name));
    }
    return name;
  }

  Statement set(std::size_t offset) {
    Target to = target();
    if (skip_symbol("=")) {
      const Expression* value = require(tuple());
      end_tag();
      return {offset, SetStatement{std::move(to), value}};
    }
    const Expression* filter = skip_symbol("|") ? filters(nullptr) : nullptr;
    end_tag();
    Block body = scoped_block({"endset"});
    return {offset, SetBlockStatement{std::move(to), filter, std::move(body)}};
  }

  // A body from which `break` cannot leave.
  Block scoped_block(Words ends) {
    int outer = std::exchange(loops_, 0);
    Block body = block(ends);
    end_tag();
    loops_ = outer;
    return body;
  }

  std::vector<Parameter> parameters() {
    std::vector<Parameter> result;
    expect_symbol("(");
    while (!is_symbol(")")) {
      if (!result.empty()) expect_symbol(",");
      if (is_symbol(")")) break;
      Parameter parameter{intern(variable_name()), nullptr};
      if (skip_symbol("=")) {
        parameter.absent = expression();
      } else if (!result.empty() && result.back().absent) {
        fail_here("a parameter without a default follows one with a default");
      }
      result.push_back(parameter);
    }
    expect_symbol(")");
    return result;
  }

  MacroStatement macro() {
    MacroStatement result{};
    result.name = variable_name();
    result.name_index = intern(result.name);
    result.parameters = parameters();
    end_tag();
    result.body = scoped_block({"endmacro"});
    return result;
  }

  CallStatement call() {
    CallStatement result{};
    result.caller.name = "caller";
    result.caller.name_index = intern("caller");
    if (is_symbol("(")) result.caller.parameters = parameters();
    result.call = expression();
    if (result.call->kind != ExpressionKind::call) fail_here("a call block needs a call");
    end_tag();
    result.caller.body = scoped_block({"endcall"});
    return result;
  }

  FilterStatement filter() {
    FilterStatement result{};
    result.filter = filters(nullptr);
    end_tag();
    result.body = scoped_block({"endfilter"});
    return result;
  }

  ScopeStatement with() {
    ScopeStatement result;
    while (current().kind != TokenKind::end_block) {
      if (!result.assignments.empty()) expect_symbol(",");
      Target to = single_target();
      expect_symbol("=");
      const Expression* value = expression();
      result.assignments.emplace_back(std::move(to), value);
    }
    end_tag();
    result.body = block({"endwith"});
    end_tag();
    return result;
  }

  ScopeStatement generation() {
    end_tag();
    ScopeStatement result;
    result.body = scoped_block({"endgeneration"});
    return result;
  }

  std::string last_word_;
  int loops_ = 0;  // open in this body
};

}  // namespace

Program parse_template(std::string_view source) {
  Program program;
  program.body = Parser(tokenize(source), program).whole();
  return program;
}

}  // namespace quire::text::jinja
