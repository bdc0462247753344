#pragma once

#include <deque>
#include <string_view>
#include <vector>

#include "text/jinja/arguments.h"
#include "text/jinja/ast.h"
#include "text/jinja/runtime.h"
#include "text/jinja/scope.h"

namespace quire::text::jinja {

// Runs one rendering of a program. Its heap is the Runtime's, which must outlive it.
class Evaluator {
 public:
  Evaluator(const Program& program, Runtime& runtime);

  void define(std::string_view name,
              Value value);  // a global; ignored if the program never names it
  TracedText run();
  // Where in the source the evaluation is, or failed.
  std::size_t offset() const { return offset_; }

 private:
  enum class Flow { normal, break_loop, continue_loop };

  // evaluator_statements.cpp
  Flow execute(const Block& block, Scope& scope);
  Flow execute(const Statement& statement, Scope& scope);
  Flow conditional(const IfStatement& statement, Scope& scope);
  void loop(const ForStatement& statement, Scope& scope);
  void run_loop(const ForStatement& statement, Values items, Scope& scope, std::int64_t depth);
  Values filtered(const ForStatement& statement, Values items, Scope& scope);
  void set_block(const SetBlockStatement& statement, Scope& scope);
  void call_block(const CallStatement& statement, Scope& scope);
  void filter_block(const FilterStatement& statement, Scope& scope);
  void with_block(const ScopeStatement& statement, Scope& scope);
  void assign(const Target& target, Value value, Scope& scope);
  TracedText capture(const Block& body, Scope& scope);
  void print(const Value& value);
  // Scopes are kept for reuse unless something refers to them.
  Scope& new_scope(Scope* parent);
  void release(Scope& scope);

  // evaluator_expressions.cpp
  Value evaluate(const Expression& expression, Scope& scope);
  Value evaluate_or(const Expression* expression, Value absent, Scope& scope);
  Values evaluate_all(const Expression& expression, Scope& scope);
  Value name(const Expression& expression, Scope& scope);
  Value dict(const Expression& expression, Scope& scope);
  Value slice_of(const Expression& expression, Scope& scope);
  Value concat(const Expression& expression, Scope& scope);
  Value comparison(const Expression& expression, Scope& scope);
  Value short_circuit(const Expression& expression, Scope& scope);
  Value choose(const Expression& expression, Scope& scope);
  Value test(const Expression& expression, Scope& scope);
  Value filter(const Expression& expression, Scope& scope);
  Value filter(const Expression& expression, const Value* input, Scope& scope);
  Value apply(const Expression& expression, Scope& scope);

  // evaluator_calls.cpp
  Value call(const Expression& expression, Scope& scope, const Value* caller = nullptr);
  Arguments arguments(const Expression& expression, Scope& scope);
  Value call_value(const Value& callee, Arguments& arguments, const Value* caller);
  Value call_macro(const MacroObject& macro, const Arguments& arguments, const Value* caller);
  void bind(const MacroStatement& macro, const Arguments& arguments, Scope& scope);
  Value call_loop(LoopObject& loop, const Arguments& arguments);

  const Program& program_;
  Runtime& runtime_;
  Values constants_;
  Values globals_;  // by name; undefined if not set
  std::vector<bool> has_global_;
  std::deque<Scope> scopes_;
  std::vector<Scope*> free_scopes_;
  std::size_t caller_name_;  // index of "caller", or npos
  TracedText* out_ = nullptr;
  std::size_t offset_ = 0;
};

}  // namespace quire::text::jinja
