#pragma once

#include <memory>

#include <quire/engine_options.h>
#include <quire/status.h>

namespace quire {

// Processors this process may use: the affinity mask, at most the cgroup's cpu.max quota; >= 1.
int available_processors();

struct ThreadPoolOptions {
  int threads = 0;             // the caller's included; 0: available_processors()
  int spin_microseconds = 50;  // an idle worker spins this long between tasks, then sleeps
  Executor executor;           // if it has `post`, its threads are used and none are created
};

// Runs one task at a time on a fixed number of threads, the caller among them. With one thread it
// creates none. Workers sleep between steps (`rest`), and after spinning inside one.
class ThreadPool {
 public:
  // The task: called once with each index 0 ... workers - 1, usually each on a thread of its own. A
  // thread that has finished takes over the index of one that has not begun (it may be asleep or
  // preempted), so a task must not wait for another index: no barriers inside. Must not throw.
  using Task = void (*)(void* context, int worker, int workers);

  static Result<std::unique_ptr<ThreadPool>> create(const ThreadPoolOptions& options);
  virtual ~ThreadPool() = default;

  virtual int size() const = 0;
  // Runs `task` for every index and returns when all have returned. Called from one thread at a
  // time.
  virtual void run(Task task, void* context) = 0;
  // No task will come soon: workers stop spinning and sleep.
  virtual void rest() = 0;

  // Same for a callable `body(worker, workers)`.
  template <class Body>
  void run(Body& body) {
    run([](void* context, int worker,
           int workers) { (*static_cast<Body*>(context))(worker, workers); },
        &body);
  }
};

}  // namespace quire
