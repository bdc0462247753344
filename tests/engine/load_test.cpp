// Where a model comes from, and a load that its host watches, stops or breaks.
#include <algorithm>
#include <cstring>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "check_contains.h"
#include "engine/runs.h"

namespace quire::testing {

TEST_CASE("a model from memory and from a callback is the model from its path", "[source]") {
  const std::string bytes = read_text(data_path(kTinyModel));
  Engine from_path = tiny();
  const Outcome expected = answer_of(from_path, sampled({9, 8, 7}, 3));

  Engine from_memory =
      open_engine(MemoryModel{std::as_bytes(std::span(bytes.data(), bytes.size()))}, small());
  CHECK(answer_of(from_memory, sampled({9, 8, 7}, 3)) == expected);

  CallbackModel callback;
  callback.size = bytes.size();
  callback.read = [&](std::uint64_t offset, std::span<std::byte> into) {
    std::memcpy(into.data(), bytes.data() + offset, into.size());
    return true;
  };
  Engine from_callback = open_engine(callback, small());
  CHECK(answer_of(from_callback, sampled({9, 8, 7}, 3)) == expected);

  callback.read = [](std::uint64_t, std::span<std::byte>) { return false; };
  auto failed = Engine::open(callback);
  REQUIRE_FALSE(failed.ok());
  CHECK(failed.status().code() == StatusCode::io_error);
}

TEST_CASE("the load can be watched and stopped", "[load]") {
  EngineOptions options = small();
  std::vector<double> seen;
  options.on_load_progress = [&](double done) {
    seen.push_back(done);
    return true;
  };
  CHECK(Engine::open(data_path(kTinyModel), options).ok());
  REQUIRE(seen.size() > 2);
  CHECK(std::is_sorted(seen.begin(), seen.end()));
  CHECK(seen.back() == 1.0);
  options.on_load_progress = [](double done) { return done < 0.5; };
  auto stopped = Engine::open(data_path(kTinyModel), options);
  REQUIRE_FALSE(stopped.ok());
  CHECK(stopped.status().code() == StatusCode::cancelled);
}

TEST_CASE("an exception in the host's log or progress function does not pass through", "[load]") {
  EngineOptions options = small();
  options.on_load_progress = [](double) -> bool { throw std::runtime_error("host"); };
  auto failed = Engine::open(data_path(kTinyModel), options);
  REQUIRE_FALSE(failed.ok());
  check_contains(failed.status().message(), "host");
  options.on_load_progress = nullptr;
  options.log = [](LogLevel, std::string_view) { throw std::runtime_error("no room to log"); };
  failed = Engine::open(data_path(kTinyModel), options);
  REQUIRE_FALSE(failed.ok());
  check_contains(failed.status().message(), "no room to log");
}

}  // namespace quire::testing
