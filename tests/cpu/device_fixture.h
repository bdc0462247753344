#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "catch.h"
#include "cpu/cpu_device.h"
#include "cpu/isa.h"
#include "cpu/kv_layout.h"
#include "cpu/row_choice.h"
#include "device/device.h"

namespace quire::test {

inline std::vector<cpu::Isa> available_isas() {
  std::vector<cpu::Isa> isas;
  for (cpu::Isa isa : cpu::kIsas) {
    if (cpu::supports(isa)) isas.push_back(isa);
  }
  return isas;
}

// Of each table of row and attention kernels one instruction set that uses it.
inline std::vector<cpu::Isa> row_kernel_isas() {
  std::vector<cpu::Isa> isas;
  for (cpu::Isa isa : available_isas()) {
    const bool known = std::any_of(isas.begin(), isas.end(), [&](cpu::Isa other) {
      return &cpu::row_kernels(isa) == &cpu::row_kernels(other) &&
             cpu::pair_kernels(isa) == cpu::pair_kernels(other);
    });
    if (!known) isas.push_back(isa);
  }
  return isas;
}

inline std::string device_name(cpu::Isa isa) {
  return "cpu:" + std::string(cpu::isa_name(isa));
}

inline std::unique_ptr<Device> open_test_device(cpu::Isa isa, int threads,
                                                Compute compute = Compute::automatic) {
  EngineOptions options;
  options.device = device_name(isa);
  options.threads = threads;
  options.cpu.compute = compute;
  Result<std::unique_ptr<Device>> device = open_device(options);
  if (!device) FAIL(device.status().message());
  return std::move(*device);
}

inline void require_ok(const Status& status) {
  INFO(status.message());
  REQUIRE(status.ok());
}

inline std::vector<float> random_floats(std::size_t count, std::mt19937& random, float scale = 1) {
  std::normal_distribution<float> normal(0, scale);
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

// Whether two arrays hold the same bits.
inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

// Pages of one KV group with one layer; every byte that nobody writes is part of a NaN.
class PagePool {
 public:
  PagePool(Device& device, const KvGroupSpec& spec, KvType type, int page_size, int pages,
           int layers = 1, int layer = 0)
      : device_(static_cast<cpu::CpuDevice&>(device)) {
    const std::size_t slab = device.kv_layer_bytes(spec, type, page_size);
    kv_.page_bytes = slab * static_cast<std::size_t>(layers);
    Result<std::unique_ptr<DeviceBuffer>> buffer =
        device.allocate(kv_.page_bytes * static_cast<std::size_t>(pages));
    if (!buffer) FAIL(buffer.status().message());
    buffer_ = std::move(*buffer);
    std::memset(buffer_->data(), 0xff, buffer_->size());
    kv_.base = buffer_->data();
    kv_.layer_offset = slab * static_cast<std::size_t>(layer);
    kv_.type = type;
    kv_.page_size = page_size;
    kv_.kv_heads = spec.kv_heads;
    kv_.head_size = spec.head_size;
  }
  const KvLayer& kv() const { return kv_; }
  const DeviceBuffer& buffer() const { return *buffer_; }
  DeviceBuffer& buffer() { return *buffer_; }

  // Writes keys and values [kv_heads][head_size] of a token.
  void write(cpu::Isa isa, const std::vector<PageId>& pages, int position, const float* keys,
             const float* values) {
    const cpu::KvLayout layout = device_.layout(kv_.type, kv_.page_size, kv_.head_size);
    const cpu::PairKernels* pairs = device_.pairs(kv_.type);
    const auto write = pairs ? pairs->write_key_value : cpu::row_kernels(isa).write_key_value;
    std::byte* slab = kv_.slab(pages[static_cast<std::size_t>(position / kv_.page_size)]);
    for (int head = 0; head < kv_.kv_heads; ++head) {
      write(layout, slab + layout.head_bytes * static_cast<std::size_t>(head),
            position % kv_.page_size, keys + head * kv_.head_size, values + head * kv_.head_size);
    }
  }

 private:
  const cpu::CpuDevice& device_;
  std::unique_ptr<DeviceBuffer> buffer_;
  KvLayer kv_;
};

}  // namespace quire::test
