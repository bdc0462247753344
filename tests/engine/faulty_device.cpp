#include "engine/faulty_device.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

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

  // Draws that were computed and are not told yet.
  struct Awaited {
    std::uint64_t number = 0;
    std::vector<DrawResult> results;
  };
  std::vector<Awaited>& awaited() { return awaited_; }
  std::uint64_t next_number() { return ++last_number_; }
  std::vector<std::int32_t>& tokens() { return tokens_; }

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
  void leave_pass() override { inner_->leave_pass(); }

 private:
  std::unique_ptr<Device> inner_;
  std::vector<Awaited> awaited_;
  std::uint64_t last_number_ = 0;
  std::vector<std::int32_t> tokens_;  // of the pass
};

// What the wrapped operation does instead of the inner device's, if anything.
template <class Args>
std::optional<Status> instead(FaultyDevice&, Args&) {
  return {};
}

std::optional<Status> instead(FaultyDevice& device, BeginPassArgs& args) {
  if (args.awaited == 0) device.awaited().clear();
  std::vector<std::int32_t>& tokens = device.tokens();
  tokens.assign(args.tokens.begin(), args.tokens.end());
  for (const FaultyDevice::Awaited& awaited : device.awaited()) {
    if (args.token_draws.empty() || awaited.number != args.awaited) continue;
    ++testing::device_faults().ahead;
    for (std::size_t row = 0; row < tokens.size(); ++row) {
      tokens[row] = awaited.results.at(static_cast<std::size_t>(args.token_draws[row])).token;
    }
  }
  args.tokens = tokens;
  args.token_draws = {};
  return {};
}

std::optional<Status> instead(FaultyDevice& device, EmbedArgs& args) {
  args.tokens = device.tokens();
  return {};
}

std::optional<Status> instead(FaultyDevice& device, SampleArgs& args) {
  const bool awaits = testing::device_faults().awaits && args.awaited != nullptr;
  if (!awaits || device.awaited().size() == 2) return {};
  FaultyDevice::Awaited awaited{device.next_number(), std::vector<DrawResult>(args.draws.size())};
  Device& inner = device.inner();
  Status status = inner.ops().sample(inner, {args.draws, awaited.results});
  *args.awaited = awaited.number;
  device.awaited().push_back(std::move(awaited));
  return status;
}

std::optional<Status> instead(FaultyDevice& device, AwaitDrawsArgs& args) {
  testing::DeviceFaults& faults = testing::device_faults();
  auto& list = device.awaited();
  const auto found = std::find_if(
      list.begin(), list.end(),
      [&](const FaultyDevice::Awaited& awaited) { return awaited.number == args.awaited; });
  if (found == list.end() || found->results.size() != args.results.size()) {
    return Status(StatusCode::internal, "nothing is awaited");
  }
  if (!args.wait && faults.computing > 0) {
    --faults.computing;
    *args.state = DrawsState::computing;
    return Status();
  }
  const bool lost = faults.lost > 0 && --faults.lost == 0;
  *args.state = lost ? DrawsState::lost : DrawsState::ready;
  if (!lost) std::move(found->results.begin(), found->results.end(), args.results.begin());
  list.erase(found);
  return Status();
}

template <auto Member>
struct Wrapped;
template <class Args, Operation<Args> ModelOps::*Member>
struct Wrapped<Member> {
  static Status run(Device& device, const Args& args) {
    testing::DeviceFaults& faults = testing::device_faults();
    ++faults.operations;
    if (Status status = countdown(faults.operation); !status.ok()) return status;
    auto& faulty = static_cast<FaultyDevice&>(device);
    Args own = args;
    if (std::optional<Status> status = instead(faulty, own)) return *status;
    return (faulty.inner().ops().*Member)(faulty.inner(), own);
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
