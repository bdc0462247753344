#include <cstdint>

#include "cpu/device_fixture.h"

namespace quire {
namespace {

Status open_status(const std::string& name) {
  EngineOptions options;
  options.device = name;
  options.threads = 1;
  const Result<std::unique_ptr<Device>> device = open_device(options);
  return device ? Status() : device.status();
}

TEST_CASE("devices are opened by name; an unknown name lists what there is") {
  CHECK(test::open_test_device(cpu::Isa::scalar, 1)->name() == "cpu:scalar");
  EngineOptions options;
  options.threads = 2;
  const Result<std::unique_ptr<Device>> best = open_device(options);
  REQUIRE(best.ok());
  CHECK((*best)->name() == test::device_name(cpu::best_isa()));
  CHECK((*best)->threads() == 2);
  for (const char* name : {"", "cpu:", "cpu:sse", "gpu", "CPU"}) {
    const Status status = open_status(name);
    CHECK(status.code() == StatusCode::invalid_argument);
    CHECK(status.message().find("cpu:scalar") != std::string::npos);
  }
}

TEST_CASE("instruction sets that this processor lacks are refused, not run") {
  for (const cpu::Isa isa : cpu::kIsas) {
    if (cpu::supports(isa)) continue;
    const Status status = open_status(test::device_name(isa));
    CHECK(status.code() == StatusCode::unsupported);
    CHECK(status.message().find("\"" + test::device_name(isa) + "\"") != std::string::npos);
    CHECK(status.message().find("there is: cpu, cpu:scalar") != std::string::npos);
  }
}

TEST_CASE("device memory is aligned and zero, and impossible sizes are a Status") {
  const auto device = test::open_test_device(cpu::Isa::scalar, 1);
  for (const std::size_t bytes : {0, 1, 63, 1000, 1 << 20}) {
    const auto buffer = device->allocate(bytes);
    REQUIRE(buffer.ok());
    CHECK((*buffer)->size() == bytes);
    CHECK(reinterpret_cast<std::uintptr_t>((*buffer)->data()) % 64 == 0);
    for (std::size_t i = 0; i < bytes; ++i) {
      if ((*buffer)->data()[i] != std::byte{0}) FAIL("byte " << i << " of " << bytes);
    }
  }
  for (const std::size_t bytes : {SIZE_MAX, SIZE_MAX - 63, SIZE_MAX / 2}) {
    CHECK(device->allocate(bytes).status().code() == StatusCode::out_of_memory);
  }
}

TEST_CASE("scratch is reserved once; its size is known before and overflow is refused") {
  const auto device = test::open_test_device(cpu::Isa::scalar, 2);
  WorkLimits limits;
  limits.rows = 64;
  limits.width = 256;
  limits.heads = 4;
  limits.head_size = 64;
  limits.logit_rows = 8;
  limits.vocabulary = 1000;
  limits.context = 5000;
  const std::size_t small = device->scratch_bytes(limits);
  CHECK(small > 2 * 64 * 256 * sizeof(float));
  limits.rows = 128;
  CHECK(device->scratch_bytes(limits) > small);
  WorkLimits huge = limits;
  huge.rows = huge.width = huge.heads = huge.head_size = INT32_MAX;
  CHECK(device->scratch_bytes(huge) == SIZE_MAX);
  CHECK(device->reserve(huge).code() == StatusCode::resource_exhausted);
  WorkLimits negative = limits;
  negative.rows = -1;
  CHECK(device->reserve(negative).code() == StatusCode::invalid_argument);
  CHECK(device->reserve(limits).ok());
  CHECK(device->reserve(limits).code() == StatusCode::internal);
}

TEST_CASE("operations beyond what was reserved, or before, are refused") {
  const auto device = test::open_test_device(cpu::Isa::scalar, 1);
  HeadArgs head;
  head.rows = 1;
  head.width = 16;
  CHECK(device->ops().head(*device, head).code() == StatusCode::internal);
  WorkLimits limits;
  limits.rows = 2;
  limits.width = 16;
  limits.heads = 2;
  limits.head_size = 8;
  REQUIRE(device->reserve(limits).ok());
  head.rows = 3;
  CHECK(device->ops().head(*device, head).code() == StatusCode::internal);

  test::PagePool pool(*device, {1, 1, 8, 0}, KvType::f16, 8, 2);
  std::vector<float> query(2 * 16, 1.0f), output(2 * 16);
  const std::vector<PageId> gone = {kNoPage, 1};
  PagedAttentionArgs args;
  args.heads = 2;
  args.query = query.data();
  args.output = output.data();
  args.kv = pool.kv();
  SequenceRows sequence{0, 1, 8, gone.data(), 2};
  args.sequences = {&sequence, 1};
  CHECK(device->ops().paged_attention(*device, args).code() == StatusCode::internal);
  sequence.first_position = 16;  // behind the last page
  CHECK(device->ops().paged_attention(*device, args).code() == StatusCode::internal);
  args.heads = 3;
  CHECK(device->ops().paged_attention(*device, args).code() == StatusCode::internal);
}

TEST_CASE("a page's slab holds keys, values and scales, in whole cache lines") {
  const auto device = test::open_test_device(cpu::Isa::scalar, 1);
  CHECK(device->kv_layer_bytes({1, 3, 64, 0}, KvType::f16, 16) == 3 * 2 * 64 * 16 * 2);
  CHECK(device->kv_layer_bytes({9, 3, 64, 0}, KvType::f32, 16) == 3 * 2 * 64 * 16 * 4);
  CHECK(device->kv_layer_bytes({1, 2, 64, 0}, KvType::int8, 16) == 2 * 2 * (64 * 16 + 16 * 4));
  CHECK(device->kv_layer_bytes({1, 1, 24, 0}, KvType::int8, 8) % 64 == 0);
}

TEST_CASE("keys and values in fp8 are refused by name") {
  const auto device = test::open_test_device(cpu::Isa::scalar, 1);
  CHECK(device->check_kv({1, 3, 64, 0}, KvType::int8, 16).ok());
  const Status status = device->check_kv({1, 3, 64, 0}, KvType::fp8, 16);
  CHECK(status.code() == StatusCode::unsupported);
  CHECK(status.message().find("fp8") != std::string::npos);
}

}  // namespace
}  // namespace quire
