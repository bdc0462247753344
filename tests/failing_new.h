#pragma once

namespace quire::test {

// Linked into a program, failing_new.cpp replaces its operator new. While a FailingNew lives,
// allocation number `nth` from then on (1 is the next), of whatever thread, throws std::bad_alloc;
// with `always`, every later one as well. One at a time.
class FailingNew {
 public:
  enum class Mode { once, always };
  FailingNew(long nth, Mode mode);
  ~FailingNew();
  FailingNew(const FailingNew&) = delete;
  FailingNew& operator=(const FailingNew&) = delete;

  // Whether it has failed anything, asked while it lives.
  bool fired() const;
  // What is left of `nth`, asked while it lives.
  long left() const;
};

// Blocks that operator new gave out and that are not deleted.
long live_allocations();
// Their bytes, as the allocator rounds them.
long live_bytes();

}  // namespace quire::test
