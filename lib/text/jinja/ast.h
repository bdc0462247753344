#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "text/jinja/operators.h"

namespace quire::text::jinja {

enum class ExpressionKind {
  constant,    // index: into Program::constants
  name,        // index: into Program::names
  tuple,       // children: the elements
  list,        // children: the elements
  dict,        // children: key, value, key, value, ...
  attribute,   // children: the object; text: the name
  item,        // children: the object, the key
  slice,       // children: the object, start, stop, step (each may be null)
  call,        // children: the callee, then the arguments
  filter,      // children: the input (null in a filter block), then the arguments; text: its name
  test,        // children: the input, then the arguments; text: its name
  negation,    // not
  minus,       // unary
  plus,        // unary
  binary,      // operation
  concat,      // ~ of all children
  comparison,  // children[0] comparisons[0] children[1] comparisons[1] ...
  all_of,      // and
  any_of,      // or
  conditional  // children: the value, the condition, the other value (may be null)
};

enum class Comparison { equal, not_equal, less, less_equal, greater, greater_equal, in, not_in };

// All expressions of a template live in Program::expressions, so that a long chain of them is freed
// without recursion.
struct Expression {
  ExpressionKind kind;
  std::size_t offset;  // in the source
  std::size_t index = 0;
  BinaryOperator operation = BinaryOperator::add;
  std::string text;
  std::vector<const Expression*> children;
  std::vector<Comparison> comparisons;
  std::vector<std::pair<std::string, const Expression*>> named;  // keyword arguments
};

struct Statement;
using Block = std::vector<Statement>;

// What an assignment assigns to: a name, an attribute of a namespace, or a tuple of targets.
struct Target {
  std::size_t offset = 0;
  std::size_t name = 0;
  std::string attribute;      // not empty: name.attribute
  std::vector<Target> parts;  // not empty: a tuple
};

struct Parameter {
  std::size_t name;
  const Expression* absent;  // the default, or null
};

struct DataStatement {
  std::string text;
};
struct PrintStatement {
  const Expression* value;
};
struct IfStatement {
  struct Branch {
    const Expression* condition;  // null: else
    Block body;
  };
  std::vector<Branch> branches;
};
struct ForStatement {
  Target target;
  const Expression* iterable;
  const Expression* condition;  // may be null
  bool recursive;
  Block body;
  Block otherwise;
};
struct SetStatement {
  Target target;
  const Expression* value;
};
// {% set x | filter %}body{% endset %}
struct SetBlockStatement {
  Target target;
  const Expression* filter;  // may be null
  Block body;
};
struct MacroStatement {
  std::string name;
  std::size_t name_index;
  std::vector<Parameter> parameters;
  Block body;
};
// {% call(parameters) macro(...) %}body{% endcall %}
struct CallStatement {
  const Expression* call;
  MacroStatement caller;
};
struct FilterStatement {
  const Expression* filter;
  Block body;
};
// A body with names of its own: {% with a = 1 %} and {% generation %}.
struct ScopeStatement {
  std::vector<std::pair<Target, const Expression*>> assignments;
  Block body;
};
struct BreakStatement {};
struct ContinueStatement {};

struct Statement {
  std::size_t offset;
  std::variant<DataStatement, PrintStatement, IfStatement, ForStatement, SetStatement,
               SetBlockStatement, MacroStatement, CallStatement, FilterStatement, ScopeStatement,
               BreakStatement, ContinueStatement>
      node;
};

using Constant = std::variant<None, bool, std::int64_t, double, std::string>;

// A parsed template. Immutable once made.
struct Program {
  Block body;
  std::deque<Expression> expressions;
  std::vector<Constant> constants;
  std::vector<std::string> names;  // every variable, once
  std::unordered_map<std::string, std::size_t> name_index;
};

}  // namespace quire::text::jinja
