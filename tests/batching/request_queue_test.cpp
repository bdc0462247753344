#include "batching/request_queue.h"

#include <memory>
#include <thread>

#include "catch.h"

namespace quire {

using Queue = RequestQueue<std::unique_ptr<int>>;

TEST_CASE("requests leave the queue in the order they came") {
  Queue queue(4);
  for (int i = 1; i <= 3; ++i)
    CHECK(queue.push(static_cast<RequestId>(i), std::make_unique<int>(i)).ok());
  const auto drained = queue.drain();
  REQUIRE(drained.size() == 3);
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(drained[i].id == i + 1);
    CHECK(*drained[i].payload == static_cast<int>(i) + 1);
  }
  CHECK(queue.empty());
}

TEST_CASE("a full queue refuses with both numbers, counting what waits behind it") {
  Queue queue(3);
  queue.set_waiting(2);
  CHECK(queue.push(1, nullptr).ok());
  const Status refused = queue.push(2, nullptr);
  CHECK(refused.code() == StatusCode::resource_exhausted);
  CHECK(refused.message() == "3 requests wait, at most 3 may");
  queue.set_waiting(0);
  CHECK(queue.push(2, nullptr).ok());
  CHECK(Queue(0).push(1, nullptr).code() == StatusCode::resource_exhausted);
}

TEST_CASE("a request cancelled in the queue never leaves it") {
  Queue queue(4);
  CHECK(queue.push(1, nullptr).ok());
  CHECK(queue.push(2, nullptr).ok());
  CHECK(queue.remove(1));
  const auto drained = queue.drain();
  REQUIRE(drained.size() == 1);
  CHECK(drained[0].id == 2);
}

TEST_CASE("a request that left the queue cannot be removed from it") {
  Queue queue(4);
  CHECK(queue.push(1, nullptr).ok());
  queue.drain();
  CHECK_FALSE(queue.remove(1));
  CHECK(queue.empty());
}

TEST_CASE("each request pushed by several threads is drained or was cancelled, once") {
  constexpr int kThreads = 4, kEach = 500;
  Queue queue(kThreads * kEach);
  std::vector<int> cancelled(kThreads, 0);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kEach; ++i) {
        const RequestId id = static_cast<RequestId>(1 + t * kEach + i);
        if (!queue.push(id, std::make_unique<int>(i)).ok()) return;
        if (i % 3 == 0 && queue.remove(id)) ++cancelled[static_cast<std::size_t>(t)];
      }
    });
  }
  std::size_t drained = 0;
  for (int i = 0; i < 200; ++i) drained += queue.drain().size();
  for (std::thread& thread : threads) thread.join();
  drained += queue.drain().size();
  int gone = 0;
  for (int count : cancelled) gone += count;
  CHECK(drained + static_cast<std::size_t>(gone) == kThreads * kEach);
}

}  // namespace quire
