#include "text/jinja/access.h"
#include "text/jinja/evaluator.h"
#include "text/jinja/format_value.h"

namespace quire::text::jinja {

namespace {

Value constant_value(Runtime& runtime, const Constant& constant) {
  if (auto boolean = std::get_if<bool>(&constant)) return *boolean;
  if (auto integer = std::get_if<std::int64_t>(&constant)) return *integer;
  if (auto real = std::get_if<double>(&constant)) return *real;
  if (auto text = std::get_if<std::string>(&constant)) return runtime.text(*text);
  return None{};
}

}  // namespace

Evaluator::Evaluator(const Program& program, Runtime& runtime)
    : program_(program),
      runtime_(runtime),
      globals_(program.names.size()),
      has_global_(program.names.size()) {
  for (const Constant& constant : program.constants) {
    constants_.push_back(constant_value(runtime, constant));
  }
  auto caller = program.name_index.find("caller");
  caller_name_ = caller == program.name_index.end() ? SIZE_MAX : caller->second;
}

void Evaluator::define(std::string_view name, Value value) {
  auto known = program_.name_index.find(std::string(name));
  if (known == program_.name_index.end()) return;
  globals_[known->second] = std::move(value);
  has_global_[known->second] = true;
}

TracedText Evaluator::run() {
  return capture(program_.body, new_scope(nullptr));
}

Scope& Evaluator::new_scope(Scope* parent) {
  runtime_.step();
  if (!free_scopes_.empty()) {
    Scope* scope = free_scopes_.back();
    free_scopes_.pop_back();
    scope->reset(parent);
    return *scope;
  }
  runtime_.hold(sizeof(Scope));
  return scopes_.emplace_back(parent);
}

void Evaluator::release(Scope& scope) {
  if (scope.captured()) return;
  scope.clear();
  free_scopes_.push_back(&scope);
}

TracedText Evaluator::capture(const Block& body, Scope& scope) {
  TracedText captured;
  TracedText* outer = std::exchange(out_, &captured);
  execute(body, scope);
  out_ = outer;
  return captured;
}

void Evaluator::print(const Value& value) {
  append_text(runtime_, *out_, value);
  runtime_.check_output(out_->size());
}

Evaluator::Flow Evaluator::execute(const Block& block, Scope& scope) {
  for (const Statement& statement : block) {
    Flow flow = execute(statement, scope);
    if (flow != Flow::normal) return flow;
  }
  return Flow::normal;
}

Evaluator::Flow Evaluator::execute(const Statement& statement, Scope& scope) {
  Runtime::Depth depth(runtime_);
  runtime_.step();
  offset_ = statement.offset;
  const auto& node = statement.node;
  if (auto data = std::get_if<DataStatement>(&node)) {
    runtime_.charge_bytes(data->text.size());
    out_->append(data->text, Trust::trusted);
    runtime_.check_output(out_->size());
  } else if (auto printed = std::get_if<PrintStatement>(&node)) {
    print(evaluate(*printed->value, scope));
  } else if (auto branches = std::get_if<IfStatement>(&node)) {
    return conditional(*branches, scope);
  } else if (auto repeated = std::get_if<ForStatement>(&node)) {
    loop(*repeated, scope);
  } else if (auto set = std::get_if<SetStatement>(&node)) {
    assign(set->target, evaluate(*set->value, scope), scope);
  } else if (auto captured = std::get_if<SetBlockStatement>(&node)) {
    set_block(*captured, scope);
  } else if (auto macro = std::get_if<MacroStatement>(&node)) {
    scope.capture();
    scope.set(macro->name_index, runtime_.macro(macro, &scope));
  } else if (auto called = std::get_if<CallStatement>(&node)) {
    call_block(*called, scope);
  } else if (auto filtered = std::get_if<FilterStatement>(&node)) {
    filter_block(*filtered, scope);
  } else if (auto scoped = std::get_if<ScopeStatement>(&node)) {
    with_block(*scoped, scope);
  } else {
    return std::holds_alternative<BreakStatement>(node) ? Flow::break_loop : Flow::continue_loop;
  }
  return Flow::normal;
}

Evaluator::Flow Evaluator::conditional(const IfStatement& statement, Scope& scope) {
  for (const auto& branch : statement.branches) {
    if (!branch.condition || truth(evaluate(*branch.condition, scope))) {
      return execute(branch.body, scope);
    }
  }
  return Flow::normal;
}

void Evaluator::loop(const ForStatement& statement, Scope& scope) {
  run_loop(statement, iterate(runtime_, evaluate(*statement.iterable, scope)), scope, 1);
}

Values Evaluator::filtered(const ForStatement& statement, Values items, Scope& scope) {
  if (!statement.condition) return items;
  Values kept;
  Scope& inner = new_scope(&scope);
  for (Value& item : items) {
    runtime_.step();
    assign(statement.target, item, inner);
    if (truth(evaluate(*statement.condition, inner))) kept.push_back(std::move(item));
  }
  release(inner);
  return kept;
}

void Evaluator::run_loop(const ForStatement& statement, Values items, Scope& scope,
                         std::int64_t depth) {
  items = filtered(statement, std::move(items), scope);
  if (items.empty()) {
    execute(statement.otherwise, scope);
    return;
  }
  LoopObject* state = runtime_.loop(std::move(items));
  state->depth = depth;
  state->scope = &scope;
  if (statement.recursive) {
    scope.capture();
    state->recursive = &statement;
  }
  auto loop_name = program_.name_index.find("loop");
  Scope* inner = &new_scope(&scope);
  for (std::size_t i = 0; i < state->items.size(); ++i) {
    runtime_.step();
    state->index = i;
    if (inner->captured()) {
      inner = &new_scope(&scope);
    } else {
      inner->clear();
    }
    if (loop_name != program_.name_index.end()) inner->set(loop_name->second, state);
    assign(statement.target, state->items[i], *inner);
    if (execute(statement.body, *inner) == Flow::break_loop) break;
  }
  release(*inner);
  runtime_.release_items(*state);
}

void Evaluator::set_block(const SetBlockStatement& statement, Scope& scope) {
  Scope& inner = new_scope(&scope);
  Value text = runtime_.text(capture(statement.body, inner));
  release(inner);
  if (statement.filter) text = filter(*statement.filter, &text, scope);
  assign(statement.target, std::move(text), scope);
}

void Evaluator::call_block(const CallStatement& statement, Scope& scope) {
  scope.capture();
  Value caller = runtime_.macro(&statement.caller, &scope);
  print(call(*statement.call, scope, &caller));
}

void Evaluator::filter_block(const FilterStatement& statement, Scope& scope) {
  Scope& inner = new_scope(&scope);
  Value text = runtime_.text(capture(statement.body, inner));
  release(inner);
  print(filter(*statement.filter, &text, scope));
}

void Evaluator::with_block(const ScopeStatement& statement, Scope& scope) {
  Scope& inner = new_scope(&scope);
  for (const auto& [target, value] : statement.assignments) {
    assign(target, evaluate(*value, scope), inner);
  }
  execute(statement.body, inner);
  release(inner);
}

void Evaluator::assign(const Target& target, Value value, Scope& scope) {
  if (!target.parts.empty()) {
    Values parts = iterate(runtime_, value);
    if (parts.size() != target.parts.size()) {
      offset_ = target.offset;
      fail_value("cannot unpack {} values into {} variables", parts.size(), target.parts.size());
    }
    for (std::size_t i = 0; i < parts.size(); ++i) {
      assign(target.parts[i], std::move(parts[i]), scope);
    }
    return;
  }
  if (target.attribute.empty()) return scope.set(target.name, std::move(value));
  const Value* owner = scope.find(target.name);
  NamespaceObject* names = owner ? owner->pointer<NamespaceObject>() : nullptr;
  if (!names) {
    offset_ = target.offset;
    fail_value("cannot assign attribute on non-namespace object '{}'", program_.names[target.name]);
  }
  runtime_.set_member(*names, target.attribute, std::move(value));
}

}  // namespace quire::text::jinja
