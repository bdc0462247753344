#include "engine/faulty_device.h"

#include <utility>

#include "device/backends.h"
#include "device/device.h"

namespace quire {
namespace testing {

DeviceFaults& device_faults() {
  static DeviceFaults faults;
  return faults;
}

}  // namespace testing
namespace {

Status countdown(int& left) {
  return left > 0 && --left == 0 ? testing::device_faults().failure() : Status();
}

class FaultyDevice final : public Device {
 public:
  explicit FaultyDevice(std::unique_ptr<Device> inner) : inner_(std::move(inner)) {}

  std::string name() const override { return inner_->name(); }
  int threads() const override { return inner_->threads(); }
  int default_page_size() const override { return inner_->default_page_size(); }
  KvType default_kv_type() const override { return inner_->default_kv_type(); }
  int activation_bytes() const override { return inner_->activation_bytes(); }
  HeadBlock head_block(std::int64_t vocabulary) const override {
    return inner_->head_block(vocabulary);
  }
  const ModelOps& ops() const override;
  Device& inner() { return *inner_; }

  Result<std::unique_ptr<DeviceBuffer>> allocate(std::size_t bytes) override {
    if (Status status = countdown(testing::device_faults().allocation); !status.ok()) return status;
    return inner_->allocate(bytes);
  }
  Status write(void* to, const void* from, std::size_t bytes) override {
    return inner_->write(to, from, bytes);
  }
  Status read(void* to, const void* from, std::size_t bytes) override {
    return inner_->read(to, from, bytes);
  }
  Result<std::unique_ptr<PackedMatrix>> pack(const TensorView& stored,
                                             const PackSpec& spec) override {
    if (Status status = countdown(testing::device_faults().allocation); !status.ok()) return status;
    return inner_->pack(stored, spec);
  }
  std::size_t packed_bytes(DType type, std::int64_t rows, std::int64_t columns,
                           const PackSpec& spec) const override {
    return inner_->packed_bytes(type, rows, columns, spec);
  }
  Status check_kv(const KvGroupSpec& spec, KvType type, int page_size) const override {
    return inner_->check_kv(spec, type, page_size);
  }
  std::size_t kv_layer_bytes(const KvGroupSpec& spec, KvType type, int page_size) const override {
    return inner_->kv_layer_bytes(spec, type, page_size);
  }
  Status reserve(const WorkLimits& limits) override {
    if (Status status = countdown(testing::device_faults().allocation); !status.ok()) return status;
    return inner_->reserve(limits);
  }
  std::size_t scratch_bytes(const WorkLimits& limits) const override {
    return inner_->scratch_bytes(limits);
  }
  void rest() override { inner_->rest(); }

 private:
  std::unique_ptr<Device> inner_;
};

template <auto Member>
struct Wrapped;
template <class Args, Operation<Args> ModelOps::*Member>
struct Wrapped<Member> {
  static Status run(Device& device, const Args& args) {
    testing::DeviceFaults& faults = testing::device_faults();
    ++faults.operations;
    if (Status status = countdown(faults.operation); !status.ok()) return status;
    Device& inner = static_cast<FaultyDevice&>(device).inner();
    return (inner.ops().*Member)(inner, args);
  }
  static constexpr Operation<Args> operation{run};
};

const ModelOps& FaultyDevice::ops() const {
  static constexpr ModelOps operations{
      Wrapped<&ModelOps::begin_pass>::operation,
      Wrapped<&ModelOps::embed>::operation,
      Wrapped<&ModelOps::attention_input>::operation,
      Wrapped<&ModelOps::paged_attention>::operation,
      Wrapped<&ModelOps::attention_output>::operation,
      Wrapped<&ModelOps::mlp_input>::operation,
      Wrapped<&ModelOps::mlp_output>::operation,
      Wrapped<&ModelOps::final_norm>::operation,
      Wrapped<&ModelOps::head>::operation,
      Wrapped<&ModelOps::sample>::operation,
      Wrapped<&ModelOps::await_draws>::operation,
      Wrapped<&ModelOps::copy_pages>::operation,
      Wrapped<&ModelOps::end_pass>::operation,
  };
  return operations;
}

}  // namespace

Result<std::unique_ptr<Device>> open_device(const EngineOptions& options) {
  auto inner = cpu::open_cpu_device(options);
  if (!inner) return inner.status();
  return std::unique_ptr<Device>(std::make_unique<FaultyDevice>(std::move(*inner)));
}

}  // namespace quire
