#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "text/jinja/traced_text.h"

namespace quire::text::jinja {

class Value;
class Runtime;
struct Arguments;
struct MacroStatement;
class Scope;

// What all live values of one rendering occupy.
struct MemoryMeter {
  std::int64_t bytes = 0;
};

// A string on the heap, counted by reference: strings hold no values, so they form no cycles.
struct TextObject {
  TextObject(TracedText t, MemoryMeter& m)
      : text(std::move(t)), meter(m), cost(static_cast<std::int64_t>(text.cost() + sizeof(*this))) {
    meter.bytes += cost;
  }
  ~TextObject() { meter.bytes -= cost; }
  TextObject(const TextObject&) = delete;
  TextObject& operator=(const TextObject&) = delete;

  const TracedText text;
  MemoryMeter& meter;
  const std::int64_t cost;
  std::int64_t references = 0;
};

class TextReference {
 public:
  explicit TextReference(TextObject* object) : object_(object) { ++object_->references; }
  TextReference(const TextReference& other) : object_(other.object_) { ++object_->references; }
  TextReference(TextReference&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  TextReference& operator=(TextReference other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~TextReference() {
    if (object_ && --object_->references == 0) delete object_;
  }
  const TracedText& operator*() const { return object_->text; }

 private:
  TextObject* object_;  // null only after a move
};

// Everything else that is on the heap is owned by the Runtime until the rendering ends, and values
// point to it freely: cycles (a namespace that holds itself) are harmless.
struct ListObject;
struct GeneratorObject;
struct DictObject;
struct NamespaceObject;
struct MacroObject;
struct MethodObject;
struct LoopObject;
struct StatefulObject;

using Function = Value (*)(Runtime&, Arguments&);
using Method = Value (*)(Runtime&, const Value& self, Arguments&);

// Says why there is nothing, in the words of Jinja: "'x' is undefined".
struct Undefined {
  TextReference reason;
};
struct None {};

// A Jinja (Python) value. Immutable except for namespaces and the state of loops and generators.
class Value {
 public:
  Value() : data_(None{}) {}
  template <class T>
  requires(!std::is_same_v<std::remove_cvref_t<T>, Value>) Value(T data)
      : data_(std::move(data)) {}  // NOLINT: implicit by design

  template <class T>
  const T* get_if() const {
    return std::get_if<T>(&data_);
  }
  template <class T>
  bool is() const {
    return std::holds_alternative<T>(data_);
  }
  bool is_undefined() const { return is<Undefined>(); }
  bool is_none() const { return is<None>(); }
  const TracedText* text() const {
    auto reference = get_if<TextReference>();
    return reference ? &**reference : nullptr;
  }
  const ListObject* list() const { return pointer<ListObject>(); }  // also a tuple or a view
  const DictObject* dict() const { return pointer<DictObject>(); }
  template <class T>
  T* pointer() const {
    auto p = std::get_if<T*>(&data_);
    return p ? *p : nullptr;
  }

 private:
  std::variant<None, Undefined, bool, std::int64_t, double, TextReference, ListObject*,
               GeneratorObject*, DictObject*, NamespaceObject*, MacroObject*, MethodObject*,
               LoopObject*, StatefulObject*, Function>
      data_;
};

using Values = std::vector<Value>;

// Python's name of the type, for messages.
std::string_view type_name(const Value& value);

}  // namespace quire::text::jinja
