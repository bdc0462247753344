#pragma once

#include <chrono>
#include <memory>
#include <optional>

#include <quire/engine.h>
#include <quire/export.h>

namespace quire {

// One submitted request as its caller holds it. Movable; thread-safe. Dropping it cancels the
// request if it still runs.
class QUIRE_EXPORT Completion {
 public:
  Completion(Completion&&) noexcept;
  Completion& operator=(Completion&&) noexcept;
  ~Completion();

  // Why the request was refused, or ok.
  const Status& status() const;
  RequestId id() const;  // 0 if it was refused

  // The next event; nothing when all have been delivered, after `cancel`, or when `wait` is over.
  std::optional<TokenEvent> next(std::chrono::nanoseconds wait = std::chrono::hours(24));
  // Waits for the end and returns everything not yet taken by `next`.
  Result<Generation> wait();
  // True when no event will come any more.
  bool done() const;
  // Ends the request; true if it was live. No event is returned after this.
  bool cancel();

 private:
  friend class EngineThread;
  struct Impl;
  explicit Completion(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// A thread that owns an engine and steps it while there is work. All methods may be called from any
// thread. Destroying it ends all requests as `cancelled` and joins the thread; Completions may
// outlive it.
class QUIRE_EXPORT EngineThread {
 public:
  explicit EngineThread(Engine engine);
  EngineThread(EngineThread&&) noexcept;
  EngineThread& operator=(EngineThread&&) noexcept;
  ~EngineThread();

  Completion submit(Request request);
  EngineStats stats() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace quire
