// What operators work on: literals, names, calls, subscripts, filters and tests.
#include <algorithm>
#include <charconv>

#include "text/jinja/expression_parser.h"

namespace quire::text::jinja {

const Expression* ExpressionParser::primary() {
  const Token& token = current();
  switch (token.kind) {
    case TokenKind::name: {
      next();
      if (token.text == "true" || token.text == "True") return constant(true, token.offset);
      if (token.text == "false" || token.text == "False") return constant(false, token.offset);
      if (token.text == "none" || token.text == "None") return constant(None{}, token.offset);
      Expression* made = make(ExpressionKind::name, token.offset);
      made->index = intern(token.text);
      return made;
    }
    case TokenKind::string:
      return string();
    case TokenKind::integer:
    case TokenKind::real:
      return number();
    default:
      break;
  }
  if (skip_symbol("(")) {
    const Expression* inside = tuple();
    if (!inside) inside = make(ExpressionKind::tuple, token.offset);
    expect_symbol(")");
    return inside;
  }
  if (is_symbol("[")) return list();
  if (is_symbol("{")) return dict();
  fail_unexpected("an expression");
}

const Expression* ExpressionParser::string() {
  std::size_t offset = current().offset;
  std::string text;
  while (current().kind == TokenKind::string) text += next().text;
  return constant(std::move(text), offset);
}

const Expression* ExpressionParser::number() {
  const Token& token = current();
  std::string digits = token.text;
  std::erase(digits, '_');
  const char* first = digits.data();
  const char* last = first + digits.size();
  std::from_chars_result parsed{};
  Constant value;
  if (token.kind == TokenKind::real) {
    double real = 0;
    parsed = std::from_chars(first, last, real);
    value = real;
  } else {
    char kind = digits.size() > 2 ? static_cast<char>(digits[1] | 0x20) : '\0';
    int base = kind == 'x' ? 16 : kind == 'o' ? 8 : kind == 'b' ? 2 : 10;
    std::int64_t integer = 0;
    parsed = std::from_chars(first + (base == 10 ? 0 : 2), last, integer, base);
    value = integer;
  }
  if (parsed.ec != std::errc() || parsed.ptr != last) {
    fail_here(fmt::format("the number {} cannot be read", token.text.substr(0, 40)));
  }
  std::size_t offset = next().offset;
  return constant(std::move(value), offset);
}

const Expression* ExpressionParser::list() {
  Expression* made = make(ExpressionKind::list, next().offset);
  while (!is_symbol("]")) {
    if (!made->children.empty()) {
      expect_symbol(",");
      if (is_symbol("]")) break;
    }
    made->children.push_back(expression());
  }
  expect_symbol("]");
  return made;
}

const Expression* ExpressionParser::dict() {
  Expression* made = make(ExpressionKind::dict, next().offset);
  while (!is_symbol("}")) {
    if (!made->children.empty()) {
      expect_symbol(",");
      if (is_symbol("}")) break;
    }
    made->children.push_back(expression());
    expect_symbol(":");
    made->children.push_back(expression());
  }
  expect_symbol("}");
  return made;
}

const Expression* ExpressionParser::tuple(Conditional conditional, std::string_view end_word) {
  std::size_t offset = current().offset;
  std::vector<const Expression*> elements;
  bool is_tuple = false;
  while (true) {
    bool ends = current().kind == TokenKind::end_print || current().kind == TokenKind::end_block ||
                is_symbol(")") || (!end_word.empty() && is_name(end_word));
    if (ends) break;
    elements.push_back(expression(conditional));
    if (!skip_symbol(",")) break;
    is_tuple = true;
  }
  if (!is_tuple) return elements.empty() ? nullptr : elements[0];
  return make(ExpressionKind::tuple, offset, std::move(elements));
}

const Expression* ExpressionParser::postfix(const Expression* object) {
  while (true) {
    if (skip_symbol(".")) {
      object = after_dot(object);
    } else if (is_symbol("[")) {
      object = subscript(object);
    } else if (is_symbol("(")) {
      Expression* call = make(ExpressionKind::call, current().offset, {object});
      arguments(*call);
      object = call;
    } else {
      return object;
    }
  }
}

const Expression* ExpressionParser::after_dot(const Expression* object) {
  const Token& token = current();
  if (token.kind == TokenKind::integer) {
    return make(ExpressionKind::item, token.offset, {object, number()});
  }
  Expression* made = make(ExpressionKind::attribute, token.offset, {object});
  made->text = expect_name("the name of an attribute").text;
  return made;
}

const Expression* ExpressionParser::subscript(const Expression* object) {
  std::size_t offset = next().offset;
  auto part = [&]() -> const Expression* {
    return is_symbol(":") || is_symbol("]") ? nullptr : expression();
  };
  const Expression* first = part();
  if (!is_symbol(":")) {
    if (!first) fail_unexpected("an index");
    std::vector<const Expression*> keys{first};
    while (skip_symbol(",")) keys.push_back(expression());
    expect_symbol("]");
    if (keys.size() > 1) first = make(ExpressionKind::tuple, offset, std::move(keys));
    return make(ExpressionKind::item, offset, {object, first});
  }
  next();
  const Expression* stop = part();
  const Expression* step = skip_symbol(":") ? part() : nullptr;
  expect_symbol("]");
  return make(ExpressionKind::slice, offset, {object, first, stop, step});
}

void ExpressionParser::arguments(Expression& call) {
  expect_symbol("(");
  bool first = true;
  while (!is_symbol(")")) {
    if (!first) {
      expect_symbol(",");
      if (is_symbol(")")) break;
    }
    first = false;
    if (is_symbol("*") || is_symbol("**")) fail_here("arguments with * or ** are not supported");
    const Token& after = tokens_[std::min(at_ + 1, tokens_.size() - 1)];
    bool named =
        current().kind == TokenKind::name && after.kind == TokenKind::symbol && after.text == "=";
    if (named) {
      const std::string& name = next().text;
      next();
      call.named.emplace_back(name, expression());
    } else {
      if (!call.named.empty()) fail_here("a positional argument follows a named one");
      call.children.push_back(expression());
    }
  }
  expect_symbol(")");
}

const Expression* ExpressionParser::filters(const Expression* input) {
  do {
    const Token& name = expect_name("the name of a filter");
    Expression* made = make(ExpressionKind::filter, name.offset, {input});
    made->text = name.text;
    while (skip_symbol(".")) made->text += "." + expect_name("the name of a filter").text;
    if (is_symbol("(")) arguments(*made);
    input = made;
  } while (skip_symbol("|"));
  return input;
}

const Expression* ExpressionParser::filters_and_tests(const Expression* input) {
  while (true) {
    if (skip_symbol("|")) {
      input = filters(input);
    } else if (is_name("is")) {
      input = test(input);
    } else if (is_symbol("(")) {
      Expression* call = make(ExpressionKind::call, current().offset, {input});
      arguments(*call);
      input = call;
    } else {
      return input;
    }
  }
}

const Expression* ExpressionParser::test(const Expression* input) {
  std::size_t offset = next().offset;
  bool negated = skip_name("not");
  Expression* made = make(ExpressionKind::test, offset, {input});
  made->text = expect_name("the name of a test").text;
  const Token& token = current();
  bool value = token.kind == TokenKind::string || token.kind == TokenKind::integer ||
               token.kind == TokenKind::real || is_symbol("[") || is_symbol("{");
  bool name = token.kind == TokenKind::name && !is_name("else") && !is_name("or") &&
              !is_name("and") && !is_name("is");
  if (is_symbol("(")) {
    arguments(*made);
  } else if (value || name) {
    made->children.push_back(postfix(primary()));
  }
  return negated ? make(ExpressionKind::negation, offset, {made}) : made;
}

}  // namespace quire::text::jinja
