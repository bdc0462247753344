#include "text/jinja/access.h"
#include "text/jinja/evaluator.h"
#include "text/jinja/loop_methods.h"

namespace quire::text::jinja {

// The arguments of a call, a filter or a test: all children but the first, and the named ones.
Arguments Evaluator::arguments(const Expression& expression, Scope& scope) {
  Arguments given;
  for (std::size_t i = 1; i < expression.children.size(); ++i) {
    given.positional.push_back(evaluate(*expression.children[i], scope));
  }
  for (const auto& [name, value] : expression.named) {
    given.named.emplace_back(name, evaluate(*value, scope));
  }
  return given;
}

Value Evaluator::call(const Expression& expression, Scope& scope, const Value* caller) {
  const Expression& function = *expression.children[0];
  Value callee = evaluate(function, scope);
  Arguments given = arguments(expression, scope);
  given.callee = function.kind == ExpressionKind::name ? program_.names[function.index]
                                                       : std::string_view(function.text);
  offset_ = expression.offset;
  return call_value(callee, given, caller);
}

Value Evaluator::call_value(const Value& callee, Arguments& arguments, const Value* caller) {
  if (auto function = callee.get_if<Function>()) return (*function)(runtime_, arguments);
  if (auto method = callee.pointer<MethodObject>()) {
    arguments.callee = method->name;
    return method->method(runtime_, method->self, arguments);
  }
  if (auto macro = callee.pointer<MacroObject>()) return call_macro(*macro, arguments, caller);
  if (auto loop = callee.pointer<LoopObject>()) return call_loop(*loop, arguments);
  if (auto state = callee.pointer<StatefulObject>()) {
    return call_stateful(runtime_, *state, arguments);
  }
  if (auto undefined = callee.get_if<Undefined>()) fail_value("{}", (*undefined->reason).view());
  fail_value("'{}' object is not callable", type_name(callee));
}

void Evaluator::bind(const MacroStatement& macro, const Arguments& arguments, Scope& scope) {
  if (arguments.positional.size() > macro.parameters.size()) {
    fail_value("macro '{}' takes not more than {} argument(s), {} given", macro.name,
               macro.parameters.size(), arguments.positional.size());
  }
  for (const auto& [name, value] : arguments.named) {
    bool known = false;
    for (const Parameter& parameter : macro.parameters) {
      known = known || program_.names[parameter.name] == name;
    }
    if (!known && name != "caller") {
      fail_value("macro '{}' takes no keyword argument '{}'", macro.name, name);
    }
  }
  for (std::size_t i = 0; i < macro.parameters.size(); ++i) {
    const Parameter& parameter = macro.parameters[i];
    const std::string& name = program_.names[parameter.name];
    if (const Value* given = arguments.find(i, name)) {
      scope.set(parameter.name, *given);
    } else if (parameter.absent) {
      scope.set(parameter.name, evaluate(*parameter.absent, scope));
    } else {
      scope.set(parameter.name,
                runtime_.undefined(fmt::format("parameter '{}' was not provided", name)));
    }
  }
}

Value Evaluator::call_macro(const MacroObject& macro, const Arguments& arguments,
                            const Value* caller) {
  Runtime::Depth depth(runtime_);
  Scope& scope = new_scope(macro.scope);
  if (const Value* named = arguments.find(SIZE_MAX, "caller")) {
    if (!caller) caller = named;
  }
  if (caller_name_ != SIZE_MAX && macro.definition->name_index != caller_name_) {
    scope.set(caller_name_, caller ? *caller : runtime_.undefined("No caller defined"));
  }
  bind(*macro.definition, arguments, scope);
  std::size_t from = offset_;
  Value result = runtime_.text(capture(macro.definition->body, scope));
  offset_ = from;
  release(scope);
  return result;
}

Value Evaluator::call_loop(LoopObject& loop, const Arguments& arguments) {
  auto statement = static_cast<const ForStatement*>(loop.recursive);
  if (!statement) fail_value("the loop must have the 'recursive' marker to be called");
  Runtime::Depth depth(runtime_);
  Values items = iterate(runtime_, arguments.require(0, "iterable"));
  TracedText captured;
  TracedText* outer = std::exchange(out_, &captured);
  run_loop(*statement, std::move(items), *loop.scope, loop.depth + 1);
  out_ = outer;
  return runtime_.text(std::move(captured));
}

}  // namespace quire::text::jinja
