#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "text/jinja/value.h"

namespace quire::text::jinja {

// The variables of one body: a template, a loop's pass, a macro's call. Names are indices into
// Program::names.
class Scope {
 public:
  explicit Scope(Scope* parent) : parent_(parent) {}

  // In this scope or around it; null if there is no such variable.
  const Value* find(std::size_t name) const {
    for (const Scope* scope = this; scope; scope = scope->parent_) {
      for (const auto& [known, value] : scope->variables_) {
        if (known == name) return &value;
      }
    }
    return nullptr;
  }
  void set(std::size_t name, Value value) {
    for (auto& [known, old] : variables_) {
      if (known == name) {
        old = std::move(value);
        return;
      }
    }
    variables_.emplace_back(name, std::move(value));
  }
  std::size_t size() const { return variables_.size(); }
  void clear() { variables_.clear(); }
  void reset(Scope* parent) {
    variables_.clear();
    parent_ = parent;
  }

  // A macro or a recursive loop refers to it: it and all around it must stay as they are.
  void capture() {
    for (Scope* scope = this; scope && !scope->captured_; scope = scope->parent_) {
      scope->captured_ = true;
    }
  }
  bool captured() const { return captured_; }

 private:
  Scope* parent_;
  std::vector<std::pair<std::size_t, Value>> variables_;
  bool captured_ = false;
};

}  // namespace quire::text::jinja
