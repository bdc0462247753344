#include "text/jinja/access.h"
#include "text/jinja/evaluator.h"
#include "text/jinja/filters.h"
#include "text/jinja/format_value.h"
#include "text/jinja/tests.h"

namespace quire::text::jinja {

Value Evaluator::evaluate(const Expression& expression, Scope& scope) {
  Runtime::Depth depth(runtime_);
  runtime_.step();
  switch (expression.kind) {
    case ExpressionKind::constant:
      return constants_[expression.index];
    case ExpressionKind::name:
      return name(expression, scope);
    case ExpressionKind::tuple:
      return runtime_.tuple(evaluate_all(expression, scope));
    case ExpressionKind::list:
      return runtime_.list(evaluate_all(expression, scope));
    case ExpressionKind::dict:
      return dict(expression, scope);
    case ExpressionKind::slice:
      return slice_of(expression, scope);
    case ExpressionKind::call:
      return call(expression, scope);
    case ExpressionKind::filter:
      return filter(expression, scope);
    case ExpressionKind::test:
      return test(expression, scope);
    case ExpressionKind::concat:
      return concat(expression, scope);
    case ExpressionKind::comparison:
      return comparison(expression, scope);
    case ExpressionKind::all_of:
    case ExpressionKind::any_of:
      return short_circuit(expression, scope);
    case ExpressionKind::conditional:
      return choose(expression, scope);
    case ExpressionKind::attribute:
    case ExpressionKind::item:
    case ExpressionKind::negation:
    case ExpressionKind::minus:
    case ExpressionKind::plus:
    case ExpressionKind::binary:
      return apply(expression, scope);
  }
  fail(StatusCode::internal, "an expression of unknown kind");
}

// Operations on operands that are all evaluated first.
Value Evaluator::apply(const Expression& expression, Scope& scope) {
  Value first = evaluate(*expression.children[0], scope);
  Value second;
  if (expression.children.size() > 1) second = evaluate(*expression.children[1], scope);
  offset_ = expression.offset;
  switch (expression.kind) {
    case ExpressionKind::attribute:
      return attribute(runtime_, first, expression.text);
    case ExpressionKind::item:
      return item(runtime_, first, second);
    case ExpressionKind::negation:
      return !truth(first);
    case ExpressionKind::minus:
      return negate(first);
    case ExpressionKind::plus:
      if (!is_number(first)) fail_value("bad operand type for unary +: '{}'", type_name(first));
      return first;
    default:
      return binary(runtime_, expression.operation, first, second);
  }
}

Values Evaluator::evaluate_all(const Expression& expression, Scope& scope) {
  Values values;
  values.reserve(expression.children.size());
  for (const Expression* child : expression.children) values.push_back(evaluate(*child, scope));
  return values;
}

Value Evaluator::name(const Expression& expression, Scope& scope) {
  if (const Value* value = scope.find(expression.index)) return *value;
  if (has_global_[expression.index]) return globals_[expression.index];
  return runtime_.undefined(fmt::format("'{}' is undefined", program_.names[expression.index]));
}

Value Evaluator::dict(const Expression& expression, Scope& scope) {
  Values values = evaluate_all(expression, scope);
  std::vector<std::pair<Value, Value>> members;
  for (std::size_t i = 0; i + 1 < values.size(); i += 2) {
    members.emplace_back(std::move(values[i]), std::move(values[i + 1]));
  }
  offset_ = expression.offset;
  return runtime_.dict(std::move(members));
}

Value Evaluator::evaluate_or(const Expression* expression, Value absent, Scope& scope) {
  return expression ? evaluate(*expression, scope) : absent;
}

Value Evaluator::slice_of(const Expression& expression, Scope& scope) {
  Value object = evaluate(*expression.children[0], scope);
  SliceBounds bounds{evaluate_or(expression.children[1], None{}, scope),
                     evaluate_or(expression.children[2], None{}, scope),
                     evaluate_or(expression.children[3], None{}, scope)};
  offset_ = expression.offset;
  return slice(runtime_, object, bounds);
}

Value Evaluator::concat(const Expression& expression, Scope& scope) {
  TracedText result;
  for (const Expression* child : expression.children) {
    append_text(runtime_, result, evaluate(*child, scope));
  }
  offset_ = expression.offset;
  return runtime_.text(std::move(result));
}

namespace {

bool holds(Runtime& runtime, Comparison comparison, const Value& a, const Value& b) {
  switch (comparison) {
    case Comparison::equal:
      return equal(runtime, a, b);
    case Comparison::not_equal:
      return !equal(runtime, a, b);
    case Comparison::less:
      return compare(runtime, a, b, "<") < 0;
    case Comparison::less_equal:
      return compare(runtime, a, b, "<=") <= 0;
    case Comparison::greater:
      return compare(runtime, a, b, ">") > 0;
    case Comparison::greater_equal:
      return compare(runtime, a, b, ">=") >= 0;
    case Comparison::in:
      return contains(runtime, b, a);
    case Comparison::not_in:
      return !contains(runtime, b, a);
  }
  return false;
}

}  // namespace

Value Evaluator::comparison(const Expression& expression, Scope& scope) {
  Value left = evaluate(*expression.children[0], scope);
  for (std::size_t i = 0; i < expression.comparisons.size(); ++i) {
    Value right = evaluate(*expression.children[i + 1], scope);
    offset_ = expression.offset;
    if (!holds(runtime_, expression.comparisons[i], left, right)) return false;
    left = std::move(right);
  }
  return true;
}

// `and` and `or` give the operand that decided.
Value Evaluator::short_circuit(const Expression& expression, Scope& scope) {
  bool decisive = expression.kind == ExpressionKind::any_of;
  Value value;
  for (const Expression* child : expression.children) {
    value = evaluate(*child, scope);
    if (truth(value) == decisive) break;
  }
  return value;
}

Value Evaluator::choose(const Expression& expression, Scope& scope) {
  if (truth(evaluate(*expression.children[1], scope)))
    return evaluate(*expression.children[0], scope);
  if (const Expression* otherwise = expression.children[2]) return evaluate(*otherwise, scope);
  return runtime_.undefined("the inline if-expression evaluated to false and no else is given");
}

Value Evaluator::test(const Expression& expression, Scope& scope) {
  Arguments given = arguments(expression, scope);
  Value input = evaluate(*expression.children[0], scope);
  given.callee = expression.text;
  offset_ = expression.offset;
  return apply_test(runtime_, expression.text, input, given);
}

Value Evaluator::filter(const Expression& expression, Scope& scope) {
  return filter(expression, nullptr, scope);
}

// `input` is what the first filter of a chain in a filter block works on.
Value Evaluator::filter(const Expression& expression, const Value* input, Scope& scope) {
  Runtime::Depth depth(runtime_);
  const Expression* child = expression.children[0];
  Value value = !child                                           ? (input ? *input : Value())
                : input && child->kind == ExpressionKind::filter ? filter(*child, input, scope)
                                                                 : evaluate(*child, scope);
  Arguments given = arguments(expression, scope);
  given.callee = expression.text;
  offset_ = expression.offset;
  return apply_filter(runtime_, expression.text, value, given);
}

}  // namespace quire::text::jinja
