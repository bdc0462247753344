// What `open` says about GPUs, also where there are none.
#include "check_contains.h"
#include "cuda/gpu.h"
#include "model/golden.h"

namespace quire::testing {
namespace {

const char* const kModel = "tiny/llama/model.gguf";

Status open_status(const EngineOptions& options) {
  return Engine::open(data_path(kModel), options).status();
}

EngineOptions on(const std::string& device) {
  EngineOptions options;
  options.device = device;
  return options;
}

}  // namespace

TEST_CASE("without a GPU or its driver, opening one is a Status and the processor still works") {
  int count = 0;
  if (cudaGetDeviceCount(&count) == cudaSuccess && count > 0) {
    CHECK(open_status(on("cuda")).ok());
    return;
  }
  for (const char* device : {"cuda", "cuda:0", "cuda:7"}) {
    const Status status = open_status(on(device));
    CHECK(status.code() == StatusCode::device_error);
    check_contains(status.message(), device);
    CHECK(Engine::estimate(data_path(kModel), on(device)).status().code() ==
          StatusCode::device_error);
  }
  Engine engine = open_engine(data_path(kModel), on("cpu"));
  Request request;
  request.tokens = {1, 2, 3};
  request.max_tokens = 2;
  CHECK(generate(engine, request).choices.at(0).tokens.size() == 2);
}

TEST_CASE("names and numbers of GPUs that cannot be are refused") {
  for (const char* device : {"cuda:", "cuda:x", "cuda:-1", "cuda:1x", "cuda:99999999999"}) {
    const Status status = open_status(on(device));
    CHECK(status.code() == StatusCode::invalid_argument);
    check_contains(status.message(), device);
  }
  const Status status = open_status(on("cuda:1000"));
  CHECK(status.code() == StatusCode::device_error);
  check_contains(status.message(), "cuda:1000");
}

TEST_CASE("what a GPU does not compute is refused at open") {
  EngineOptions exact = on("cuda");
  exact.cpu.compute = Compute::f32;
  CHECK(open_status(exact).code() == StatusCode::unsupported);
  if (!has_gpu()) return;
  EngineOptions wide = on("cuda");
  wide.cache.type = KvType::f32;
  const Status status = open_status(wide);
  CHECK(status.code() == StatusCode::unsupported);
  check_contains(status.message(), "f32");
  EngineOptions narrow = on("cuda");
  narrow.cache.type = KvType::fp8;
  narrow.cache.page_size = 8;
  const Status refused = open_status(narrow);
  CHECK(refused.code() == StatusCode::unsupported);
  check_contains(refused.message(), "16 tokens or more, not 8");
}

}  // namespace quire::testing
