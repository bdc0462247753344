// The device, the executor or a callback of the host fails: what that costs, and that nothing else
// does.
#include <new>
#include <stdexcept>

#include "emulated.h"
#include "engine/faulty_device.h"
#include "engine/workload.h"

namespace quire::testing {
namespace {

constexpr int kSteps = 12;

struct Failure {
  const char* name;
  StatusCode code;
  Status (*happen)();
};

const Failure kFailures[] = {
    {"device_error", StatusCode::device_error,
     [] { return Status(StatusCode::device_error, "the device is gone"); }},
    {"out_of_memory", StatusCode::out_of_memory,
     [] { return Status(StatusCode::out_of_memory, "the device has no memory"); }},
    {"bad_alloc", StatusCode::out_of_memory, []() -> Status { throw std::bad_alloc(); }},
    {"exception", StatusCode::internal, []() -> Status { throw std::runtime_error("odd"); }},
    {"no exception type", StatusCode::internal, []() -> Status { throw 1; }},
};

// Faults end with the test that set them.
struct Faults {
  ~Faults() { device_faults() = {}; }
};

}  // namespace

TEST_CASE("an operation that fails ends its requests, or runs again if memory was short",
          "[fault]") {
  Faults faults;
  Workload work;
  for (const Failure& failure : kFailures) {
    Engine engine = Workload::open();
    bool fired = true;
    int failed_steps = 0;
    for (int nth = 1; fired; nth += kEmulated ? 83 : 7) {
      INFO("operation " << nth << ": " << failure.name);
      work.prepare();
      device_faults().failure = failure.happen;
      device_faults().operation = nth;
      work.run_beginning(engine, kSteps);
      fired = device_faults().operation == 0;
      device_faults().operation = 0;
      for (StatusCode code : work.statuses()) REQUIRE(code == failure.code);
      REQUIRE(work.statuses().size() == (fired ? 1 : 0));
      failed_steps += static_cast<int>(work.statuses().size());
      work.run_to_the_end(engine);
      // Memory may come back: the pass is planned again, and nobody notices.
      if (failure.code == StatusCode::out_of_memory) REQUIRE(work.whole() == 6);
    }
    CHECK(failed_steps > (kEmulated ? 1 : 20));
  }
}

TEST_CASE("a device that has no memory three times ends the requests of the pass", "[fault]") {
  Faults faults;
  Engine engine = Workload::open();
  const RequestId id = submit(engine, sampled({9, 8, 7}, 3, 6));
  device_faults().failure = kFailures[1].happen;
  for (int failure = 1; failure <= 3; ++failure) {
    CHECK(engine.has_work());
    device_faults().operation = 2;
    CHECK(engine.step().status().code() == StatusCode::out_of_memory);
    CHECK(engine.stats().pages_in_use == 0);
  }
  auto events = engine.events();
  REQUIRE(events.size() == 1);
  CHECK(events[0].request == id);
  CHECK(events[0].finished);
  CHECK(events[0].finish_reason == FinishReason::error);
  CHECK(events[0].status.message() == "the device has no memory");
  CHECK_FALSE(engine.has_work());
  CHECK(generate(engine, sampled({9, 8, 7}, 3, 6)).choices[0].tokens.size() == 6);
}

TEST_CASE("a device that refuses memory while the engine opens is named by the Status", "[fault]") {
  Faults faults;
  int refused = 0;
  for (const Failure& failure : kFailures) {
    bool fired = true;
    for (int nth = 1; fired; nth += kEmulated ? 4 : 1) {
      INFO("allocation " << nth << ": " << failure.name);
      device_faults().failure = failure.happen;
      device_faults().allocation = nth;
      auto engine = Engine::open(data_path("tiny/llama/model.gguf"), Workload::options());
      fired = device_faults().allocation == 0;
      device_faults().allocation = 0;
      REQUIRE(engine.ok() == !fired);
      if (fired) REQUIRE(engine.status().code() == failure.code);
      refused += fired;
    }
  }
  CHECK(refused > (kEmulated ? 12 : 50));
}

TEST_CASE("an executor that refuses work leaves it to the calling thread", "[fault]") {
  Workload work;
  for (int nth = 0; nth < 40; nth += kEmulated ? 13 : 1) {
    INFO("post " << nth << " throws, as do all later ones if it is even");
    int posts = 0;
    EngineOptions options = Workload::options();
    options.threads = 0;
    options.executor.threads = 3;
    options.executor.post = [&](void (*task)(void*), void* argument) {
      const int post = posts++;
      if (post == nth || (nth % 2 == 0 && post > nth)) throw std::runtime_error("host is busy");
      task(argument);
    };
    Engine engine = Workload::open(options);
    work.prepare();
    work.run_beginning(engine, kSteps);
    REQUIRE(work.statuses().empty());
    work.run_to_the_end(engine);
    REQUIRE(work.whole() == 6);
    REQUIRE(posts > nth);
  }
}

TEST_CASE("a callback of the host that throws while a model is read fails the open", "[fault]") {
  const std::string bytes = read_text(data_path("tiny/llama/model.gguf"));
  bool fired = true;
  int reads_seen = 0;
  for (int nth = 1; fired; ++nth) {
    INFO("read " << nth << " throws");
    int reads = 0;
    CallbackModel callback;
    callback.size = bytes.size();
    callback.read = [&](std::uint64_t offset, std::span<std::byte> into) -> bool {
      if (++reads == nth) throw std::runtime_error("host cannot read");
      std::copy_n(reinterpret_cast<const std::byte*>(bytes.data()) + offset, into.size(),
                  into.begin());
      return true;
    };
    auto engine = Engine::open(callback, Workload::options());
    fired = reads >= nth;
    REQUIRE(engine.ok() == !fired);
    reads_seen = reads;
  }
  CHECK(reads_seen > 0);
}

}  // namespace quire::testing
