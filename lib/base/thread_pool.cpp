#include "base/thread_pool.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <system_error>
#include <thread>
#include <vector>

#include "base/error.h"

#if defined(__x86_64__) || defined(__i386__)
#include <immintrin.h>
#endif

namespace quire {
namespace {

constexpr int kMaxThreads = 1024;

void pause_processor() {
#if defined(__x86_64__) || defined(__i386__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Spins while `waiting()` and for at most the budget; true if it ended because `waiting` did.
template <class Waiting>
bool spin(std::chrono::microseconds budget, Waiting waiting) {
  if (budget.count() <= 0) return !waiting();
  const auto end = std::chrono::steady_clock::now() + budget;
  while (true) {
    for (int i = 0; i < 32; ++i) {
      if (!waiting()) return true;
      pause_processor();
    }
    if (std::chrono::steady_clock::now() >= end) return !waiting();
  }
}

// One round of a pool is a call of run(). Each index of the round is claimed by whoever gets to it
// first: its own thread, or another that has finished early, so that a thread which sleeps or was
// preempted before it began holds nobody up. An index is free in round r while its mark is r - 1; a
// latecomer from an old round finds another mark and claims nothing.
class Round {
 public:
  explicit Round(int indices) : marks_(static_cast<std::size_t>(indices)) {}

  int indices() const { return static_cast<int>(marks_.size()); }

  // Begins a round and returns its number. The one before is finished.
  std::uint32_t begin(ThreadPool::Task task, void* context) {
    task_ = task;
    context_ = context;
    remaining_.store(indices(), std::memory_order_relaxed);
    return number_.fetch_add(1, std::memory_order_seq_cst) + 1;
  }

  // Runs index `preferred` of that round if it is free, then every other free one.
  void work(std::uint32_t number, int preferred) {
    for (int i = 0; i < indices(); ++i) {
      const int index = (preferred + i) % indices();
      std::uint32_t free_mark = number - 1;
      if (!marks_[static_cast<std::size_t>(index)].value.compare_exchange_strong(
              free_mark, number, std::memory_order_acq_rel, std::memory_order_relaxed)) {
        continue;
      }
      task_(context_, index, indices());
      if (remaining_.fetch_sub(1, std::memory_order_acq_rel) == 1) remaining_.notify_one();
    }
  }

  // Returns when every index of the round has been run.
  void wait_finished(std::chrono::microseconds spin_budget) {
    const auto unfinished = [this] { return remaining_.load(std::memory_order_acquire) != 0; };
    if (spin(spin_budget, unfinished)) return;
    for (int left = remaining_.load(std::memory_order_acquire); left != 0;
         left = remaining_.load(std::memory_order_acquire)) {
      remaining_.wait(left, std::memory_order_acquire);
    }
  }

  std::uint32_t number() const { return number_.load(std::memory_order_acquire); }
  void wait_past(std::uint32_t number) const { number_.wait(number, std::memory_order_seq_cst); }
  void wake_all() { number_.notify_all(); }
  // A round without work, which lets sleeping threads see that they shall end.
  void begin_empty() {
    for (Mark& mark : marks_) mark.value.fetch_add(1, std::memory_order_relaxed);
    number_.fetch_add(1, std::memory_order_seq_cst);
    wake_all();
  }

 private:
  struct alignas(64) Mark {
    std::atomic<std::uint32_t> value{0};  // the last round in which the index was claimed
  };

  std::vector<Mark> marks_;
  ThreadPool::Task task_ = nullptr;
  void* context_ = nullptr;
  alignas(64) std::atomic<int> remaining_{0};
  alignas(64) std::atomic<std::uint32_t> number_{0};
};

class SingleThread final : public ThreadPool {
 public:
  int size() const override { return 1; }
  void run(Task task, void* context) override { task(context, 0, 1); }
  void rest() override {}
};

class OwnThreads final : public ThreadPool {
 public:
  OwnThreads(int threads, std::chrono::microseconds spin_budget)
      : round_(threads), spin_budget_(spin_budget) {
    threads_.reserve(static_cast<std::size_t>(threads - 1));
  }

  ~OwnThreads() override {
    ending_.store(true, std::memory_order_release);
    round_.begin_empty();
    for (std::thread& thread : threads_) thread.join();
  }

  // Throws std::system_error when the system refuses a thread.
  void start() {
    for (int index = 1; index < round_.indices(); ++index) {
      threads_.emplace_back([this, index] { serve(index); });
    }
  }

  int size() const override { return round_.indices(); }

  void run(Task task, void* context) override {
    resting_.store(false, std::memory_order_relaxed);
    const std::uint32_t number = round_.begin(task, context);
    if (asleep_.load(std::memory_order_seq_cst) > 0) round_.wake_all();
    round_.work(number, 0);
    round_.wait_finished(spin_budget_);
  }

  void rest() override { resting_.store(true, std::memory_order_relaxed); }

 private:
  void serve(int index) {
    std::uint32_t seen = 0;
    while (true) {
      const bool found = spin(spin_budget_, [&] {
        return round_.number() == seen && !resting_.load(std::memory_order_relaxed);
      });
      if (!found || round_.number() == seen) {
        asleep_.fetch_add(1, std::memory_order_seq_cst);
        round_.wait_past(seen);
        asleep_.fetch_sub(1, std::memory_order_relaxed);
      }
      if (ending_.load(std::memory_order_acquire)) return;
      seen = round_.number();
      round_.work(seen, index);
    }
  }

  Round round_;
  const std::chrono::microseconds spin_budget_;
  std::atomic<bool> resting_{true};  // nobody spins before the first task
  std::atomic<bool> ending_{false};
  alignas(64) std::atomic<int> asleep_{0};
  std::vector<std::thread> threads_;
};

// Rounds on the threads of the host. A posted ticket runs whatever is free in the round under way
// when it gets a thread, possibly nothing; it may even come after the pool is gone, so the tickets
// keep what they touch alive.
class HostThreads final : public ThreadPool {
 public:
  HostThreads(Executor executor, int threads, std::chrono::microseconds spin_budget)
      : executor_(std::move(executor)), spin_budget_(spin_budget), shared_(new Shared(threads)) {}

  ~HostThreads() override { release(shared_); }

  int size() const override { return shared_->round.indices(); }

  void run(Task task, void* context) override {
    const std::uint32_t number = shared_->round.begin(task, context);
    // A bounded number: the host may run a ticket inside `post`, or as fast as they are posted.
    const int waiting = shared_->tickets.load(std::memory_order_relaxed);
    for (int posts = size() - 1 - waiting; posts > 0 && post(); --posts) {
    }
    shared_->round.work(number, 0);
    shared_->round.wait_finished(spin_budget_);
  }

  void rest() override {}

 private:
  struct Shared {
    explicit Shared(int threads) : round(threads) {}
    Round round;
    std::atomic<int> tickets{0};  // posted and not yet running
    std::atomic<int> owners{1};   // the pool, and each ticket
  };

  static void release(Shared* shared) {
    if (shared->owners.fetch_sub(1, std::memory_order_acq_rel) == 1) delete shared;
  }

  bool post() {
    shared_->owners.fetch_add(1, std::memory_order_relaxed);
    shared_->tickets.fetch_add(1, std::memory_order_relaxed);
    try {
      executor_.post(serve, shared_);
      return true;
    } catch (...) {  // the host has no room: this thread does the work
      shared_->tickets.fetch_sub(1, std::memory_order_relaxed);
      release(shared_);
      return false;
    }
  }

  static void serve(void* argument) {
    Shared* shared = static_cast<Shared*>(argument);
    // A round that begins after this count sees one ticket less and posts another, so that no round
    // counts on a ticket which looked too early.
    shared->tickets.fetch_sub(1, std::memory_order_seq_cst);
    shared->round.work(shared->round.number(), 1);
    release(shared);
  }

  Executor executor_;
  const std::chrono::microseconds spin_budget_;
  Shared* shared_;
};

}  // namespace

Result<std::unique_ptr<ThreadPool>> ThreadPool::create(const ThreadPoolOptions& options) {
  using Pool = std::unique_ptr<ThreadPool>;
  if (options.threads < 0 || options.threads > kMaxThreads) {
    return error(StatusCode::invalid_argument, "threads is {}; it must be between 0 and {}",
                 options.threads, kMaxThreads);
  }
  if (options.spin_microseconds < 0) {
    return error(StatusCode::invalid_argument, "spin_microseconds is {}; it must not be negative",
                 options.spin_microseconds);
  }
  return guarded("starting the thread pool", [&]() -> Result<Pool> {
    const int processors = available_processors();
    const bool hosted = static_cast<bool>(options.executor.post);
    int threads = options.threads > 0 ? options.threads : processors;
    if (hosted) {
      const int host_threads = std::clamp(options.executor.threads, 1, kMaxThreads);
      threads = options.threads > 0 ? std::min(options.threads, host_threads) : host_threads;
    }
    if (threads == 1) return Pool(std::make_unique<SingleThread>());
    // Threads that share a processor must not keep each other from it.
    const std::chrono::microseconds spin_budget(threads > processors ? 0
                                                                     : options.spin_microseconds);
    if (hosted) {
      return Pool(std::make_unique<HostThreads>(options.executor, threads, spin_budget));
    }
    auto pool = std::make_unique<OwnThreads>(threads, spin_budget);
    try {
      pool->start();
    } catch (const std::system_error& failure) {
      return error(StatusCode::resource_exhausted, "cannot start {} threads: {}", threads,
                   failure.what());
    }
    return Pool(std::move(pool));
  });
}

}  // namespace quire
