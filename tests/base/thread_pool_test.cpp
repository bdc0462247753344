#include "base/thread_pool.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <ctime>
#include <deque>
#include <mutex>
#include <new>
#include <thread>
#include <vector>

#include "base/os/processors.h"
#include "catch.h"

namespace quire {
namespace {

std::unique_ptr<ThreadPool> make_pool(int threads, int spin_microseconds = 50,
                                      Executor executor = {}) {
  ThreadPoolOptions options;
  options.threads = threads;
  options.spin_microseconds = spin_microseconds;
  options.executor = std::move(executor);
  auto pool = ThreadPool::create(options);
  REQUIRE(pool.ok());
  return std::move(*pool);
}

// Runs `rounds` rounds and checks that each index ran exactly once in each.
void check_rounds(ThreadPool& pool, int rounds) {
  std::vector<int> runs(static_cast<std::size_t>(pool.size()), 0);
  int wrong_workers = 0;
  for (int round = 0; round < rounds; ++round) {
    std::atomic<int> wrong{0};
    auto body = [&](int worker, int workers) {
      if (workers != pool.size()) wrong.fetch_add(1);
      ++runs[static_cast<std::size_t>(worker)];
    };
    pool.run(body);
    wrong_workers += wrong.load();
    if (round % 37 == 0) pool.rest();
    if (round % 101 == 0) std::this_thread::sleep_for(std::chrono::microseconds(300));
  }
  CHECK(wrong_workers == 0);
  for (const int count : runs) CHECK(count == rounds);
}

// Threads of a host program that run what is posted, in order.
class Host {
 public:
  explicit Host(int threads) {
    for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { serve(); });
  }
  ~Host() {
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  Executor executor(int threads) {
    Executor executor;
    executor.threads = threads;
    executor.post = [this](void (*task)(void*), void* argument) {
      const std::lock_guard lock(mutex_);
      tasks_.push_back({task, argument});
      most_waiting_ = std::max(most_waiting_, tasks_.size());
      changed_.notify_one();
    };
    return executor;
  }

  std::size_t most_waiting() {
    const std::lock_guard lock(mutex_);
    return most_waiting_;
  }

 private:
  struct Task {
    void (*run)(void*);
    void* argument;
  };

  void serve() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return ending_ || !tasks_.empty(); });
      if (tasks_.empty()) return;  // what was posted is always run
      const Task task = tasks_.front();
      tasks_.pop_front();
      lock.unlock();
      task.run(task.argument);
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Task> tasks_;
  std::size_t most_waiting_ = 0;
  bool ending_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace

TEST_CASE("thread pool: every index runs exactly once in every round", "[thread_pool]") {
  for (const int threads : {1, 2, 3, 7}) {
    for (const int spin : {0, 50}) {
      INFO(threads << " threads, spin " << spin);
      const auto pool = make_pool(threads, spin);
      CHECK(pool->size() == threads);
      check_rounds(*pool, 1000);
    }
  }
}

TEST_CASE("thread pool: what one round wrote the next one reads", "[thread_pool]") {
  const auto pool = make_pool(4);
  std::vector<long> values(4, 1);
  for (int round = 0; round < 500; ++round) {
    std::vector<long> next(4);
    auto body = [&](int worker, int workers) {
      next[static_cast<std::size_t>(worker)] =
          values[static_cast<std::size_t>((worker + 1) % workers)] + 1;
    };
    pool->run(body);
    values = next;
  }
  CHECK(values == std::vector<long>(4, 501));
}

TEST_CASE("thread pool: one thread runs everything on the caller", "[thread_pool]") {
  const auto pool = make_pool(1);
  std::thread::id ran;
  auto body = [&](int, int) { ran = std::this_thread::get_id(); };
  pool->run(body);
  CHECK(ran == std::this_thread::get_id());
}

TEST_CASE("thread pool: an unused, a resting and a just used pool can be destroyed",
          "[thread_pool]") {
  for (int i = 0; i < 50; ++i) {
    const auto pool = make_pool(3);
    if (i % 3 > 0) check_rounds(*pool, 1);
    if (i % 3 > 1) pool->rest();
  }
}

TEST_CASE("thread pool: an idle pool uses no processor time", "[thread_pool]") {
  const auto pool = make_pool(3);
  check_rounds(*pool, 10);
  pool->rest();
  const auto processor_seconds = [] { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; };
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const double before = processor_seconds();
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  CHECK(processor_seconds() - before < 0.05);
}

TEST_CASE("thread pool: the host's threads run every index exactly once", "[thread_pool]") {
  for (const int host_threads : {1, 3}) {
    Host host(host_threads);
    const auto pool = make_pool(0, 50, host.executor(4));
    CHECK(pool->size() == 4);
    check_rounds(*pool, 2000);
    CHECK(host.most_waiting() <= 3);  // no more than one ticket for each thread but the caller
  }
}

TEST_CASE("thread pool: a host that never finds a thread leaves the work to the caller",
          "[thread_pool]") {
  std::vector<std::pair<void (*)(void*), void*>> posted;
  Executor executor;
  executor.threads = 3;
  executor.post = [&](void (*task)(void*), void* argument) { posted.emplace_back(task, argument); };
  auto pool = make_pool(0, 50, executor);
  check_rounds(*pool, 20);
  CHECK(posted.size() == 2);
  pool.reset();
  for (const auto& [task, argument] : posted) task(argument);  // late, after the pool is gone
}

TEST_CASE("thread pool: a host that throws leaves the work to the caller", "[thread_pool]") {
  Executor executor;
  executor.threads = 3;
  executor.post = [](void (*)(void*), void*) { throw std::bad_alloc(); };
  const auto pool = make_pool(0, 50, executor);
  check_rounds(*pool, 20);
}

TEST_CASE("thread pool: a host that runs tasks inside post does not hang it", "[thread_pool]") {
  Executor executor;
  executor.threads = 3;
  executor.post = [](void (*task)(void*), void* argument) { task(argument); };
  const auto pool = make_pool(0, 50, executor);
  check_rounds(*pool, 20);
}

TEST_CASE("thread pool: impossible options are refused", "[thread_pool]") {
  ThreadPoolOptions options;
  options.threads = -1;
  CHECK(ThreadPool::create(options).status().code() == StatusCode::invalid_argument);
  options.threads = 1000000;
  CHECK(ThreadPool::create(options).status().code() == StatusCode::invalid_argument);
  options.threads = 2;
  options.spin_microseconds = -1;
  CHECK(ThreadPool::create(options).status().code() == StatusCode::invalid_argument);
}

TEST_CASE("processors: at least one, at most what the system has", "[thread_pool]") {
  CHECK(available_processors() >= 1);
  CHECK(available_processors() <= static_cast<int>(std::thread::hardware_concurrency()));
}

TEST_CASE("processors: a quota counts in whole processors", "[thread_pool]") {
  CHECK(processors_of_cpu_max("max 100000\n") == std::nullopt);
  CHECK(processors_of_cpu_max("150000 100000\n") == 1);
  CHECK(processors_of_cpu_max("400000 100000") == 4);
  CHECK(processors_of_cpu_max("20000 100000") == 1);
  CHECK(processors_of_cpu_max("") == std::nullopt);
  CHECK(processors_of_cpu_max("100000") == std::nullopt);
  CHECK(processors_of_cpu_max("1x 100000") == std::nullopt);
  CHECK(processors_of_cpu_max("100000 0") == std::nullopt);
  CHECK(processors_of_cpu_max("9223372036854775807 1") == 1 << 20);
  CHECK(processors_of_quota("-1\n", "100000\n") == std::nullopt);
  CHECK(processors_of_quota("250000\n", "100000\n") == 2);
}

}  // namespace quire
