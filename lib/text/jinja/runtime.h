#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/chat_template.h"
#include "text/jinja/failure.h"
#include "text/jinja/objects.h"
#include "text/jinja/value.h"

namespace quire::text::jinja {

// What one rendering owns: its heap, its budget, its clock. Every operation that makes a value or
// whose work grows with its input goes through here, so that no template outruns its budget.
class Runtime {
 public:
  Runtime(const TemplateBudget& budget, std::int64_t now) : budget_(budget), now_(now) {}
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  // Counts work. Throws resource_exhausted when the budget is spent.
  void step() { charge_steps(1); }
  void charge_steps(std::int64_t steps);
  // The work of reading or copying so many bytes, or so many values.
  void charge_bytes(std::size_t bytes) { charge_steps(static_cast<std::int64_t>(bytes / 512)); }
  void charge_values(std::size_t count) { charge_steps(static_cast<std::int64_t>(count / 8)); }
  // text.find(part, from), its work charged.
  std::size_t find(std::string_view text, std::string_view part, std::size_t from = 0);
  // Fails if `bytes` more would pass the memory budget. To be called before a big allocation.
  void reserve_memory(std::size_t bytes);
  void reserve_values(std::size_t count);
  // Counts memory that stays in use until the rendering ends.
  void hold(std::size_t bytes);
  void check_output(std::size_t bytes);

  Value text(TracedText text);
  Value text(std::string bytes, Trust trust = Trust::trusted);
  Value undefined(std::string reason);
  Value list(Values items, Sequence kind = Sequence::list);
  Value tuple(Values items) { return list(std::move(items), Sequence::tuple); }
  Value generator(Values items);
  Value method(Value self, std::string_view name, Method method);
  // A dict from members; of equal keys the first gives the place and the last the value.
  Value dict(std::vector<std::pair<Value, Value>> members);
  NamespaceObject* make_namespace();
  void set_member(NamespaceObject& names, std::string_view name, Value value);
  MacroObject* macro(const MacroStatement* definition, Scope* scope);
  LoopObject* loop(Values items);
  void release_items(LoopObject& loop);  // when the loop has ended
  StatefulObject* stateful(StatefulObject::Kind kind, Values items);

  std::int64_t now() const { return now_; }

  // One level of C++ recursion over nested values or nested calls.
  class Depth {
   public:
    explicit Depth(Runtime& runtime) : runtime_(runtime) { runtime_.enter(); }
    ~Depth() { --runtime_.depth_; }
    Depth(const Depth&) = delete;

   private:
    Runtime& runtime_;
  };

 private:
  void enter();

  const TemplateBudget budget_;
  const std::int64_t now_;
  std::int64_t steps_ = 0;
  int depth_ = 0;
  // The meter outlives the values that count themselves on it.
  MemoryMeter meter_;
  std::deque<ListObject> lists_;
  std::deque<GeneratorObject> generators_;
  std::deque<DictObject> dicts_;
  std::deque<NamespaceObject> namespaces_;
  std::deque<MacroObject> macros_;
  std::deque<MethodObject> methods_;
  std::deque<LoopObject> loops_;
  std::deque<StatefulObject> stateful_;
};

}  // namespace quire::text::jinja
