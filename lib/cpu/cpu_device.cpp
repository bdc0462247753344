#include "cpu/cpu_device.h"

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/checked.h"
#include "base/error.h"
#include "cpu/huge_pages.h"
#include "cpu/isa.h"
#include "cpu/kv_layout.h"
#include "cpu/operations.h"
#include "cpu/pack.h"
#include "cpu/row_choice.h"

namespace quire::cpu {
namespace {

constexpr std::size_t kAlignment = 64;

// Zero pages of the system, which cost memory only when they are written.
class HostBuffer final : public DeviceBuffer {
 public:
  HostBuffer(void* block, std::size_t size) : block_(block), size_(size) {
    const auto address = reinterpret_cast<std::uintptr_t>(block);
    data_ = static_cast<std::byte*>(block) + (round_up(address, kAlignment) - address);
  }
  HostBuffer(const HostBuffer&) = delete;
  HostBuffer& operator=(const HostBuffer&) = delete;
  ~HostBuffer() override { std::free(block_); }
  std::byte* data() override { return data_; }
  std::size_t size() const override { return size_; }

 private:
  void* block_;
  std::byte* data_;
  std::size_t size_;
};

constexpr ModelOps kOperations{
    .begin_pass = Operation<BeginPassArgs>(begin_pass),
    .embed = Operation<EmbedArgs>(embed),
    .attention_input = Operation<AttentionInputArgs>(attention_input),
    .paged_attention = Operation<PagedAttentionArgs>(paged_attention),
    .attention_output = Operation<AttentionOutputArgs>(attention_output),
    .mlp_input = Operation<MlpInputArgs>(mlp_input),
    .mlp_output = Operation<MlpOutputArgs>(mlp_output),
    .final_norm = Operation<FinalNormArgs>(final_norm),
    .head = Operation<HeadArgs>(head),
    .sample = Operation<SampleArgs>(sample),
    .await_draws = Operation<AwaitDrawsArgs>(await_draws),
    .copy_pages = Operation<CopyPagesArgs>(copy_pages),
    .end_pass = Operation<EndPassArgs>(end_pass),
};

}  // namespace

CpuDevice::CpuDevice(Isa isa, const CpuOptions& options, std::unique_ptr<ThreadPool> pool)
    : isa_(isa),
      compute_(options.compute),
      in_place_(!options.copy_weights),
      pool_(std::move(pool)),
      row_(row_kernels(isa)),
      pairs_(options.compute == Compute::automatic ? pair_kernels(isa) : nullptr),
      matmul_(matmul_kernels(isa)) {}

std::string CpuDevice::name() const {
  return "cpu:" + std::string(isa_name(isa_));
}

const ModelOps& CpuDevice::ops() const {
  return kOperations;
}

Result<std::unique_ptr<DeviceBuffer>> CpuDevice::allocate(std::size_t bytes) {
  const std::size_t size = bytes;
  if (size > static_cast<std::size_t>(PTRDIFF_MAX) - 2 * kAlignment) {
    return error(StatusCode::out_of_memory, "{}: {} bytes are more than an address space", name(),
                 bytes);
  }
  void* block = std::calloc(size + kAlignment, 1);
  if (block == nullptr) {
    return error(StatusCode::out_of_memory, "{}: the system refused {} bytes", name(), bytes);
  }
  // Keys and values are read here and there: fewer translations of addresses. Memory of less than
  // some huge pages would only grow by being rounded up to them.
  constexpr std::size_t kLarge = std::size_t{8} << 20;
  if (bytes >= kLarge) advise_huge_pages(block, bytes);
  return guarded("allocate", [&]() -> Result<std::unique_ptr<DeviceBuffer>> {
    try {
      return std::unique_ptr<DeviceBuffer>(std::make_unique<HostBuffer>(block, size));
    } catch (...) {
      std::free(block);
      throw;
    }
  });
}

Status CpuDevice::write(void* to, const void* from, std::size_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
  return {};
}

Status CpuDevice::read(void* to, const void* from, std::size_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
  return {};
}

Result<std::unique_ptr<PackedMatrix>> CpuDevice::pack(const TensorView& stored,
                                                      const PackSpec& spec) {
  return guarded("pack", [&] {
    auto packed = pack_matrix(stored, spec, compute_, in_place_, isa_, *pool_, &arena_);
    if (packed) {
      const MatmulForm form = static_cast<const Matrix&>(**packed).form();
      if (!std::exchange(has_matrices_, true)) forms_.floats = false;
      forms_.groups = forms_.groups || form == MatmulForm::integer;
      forms_.bfloats = forms_.bfloats || in_pairs(form);
      forms_.floats = forms_.floats || (form != MatmulForm::integer && !in_pairs(form));
    }
    return packed;
  });
}

std::size_t CpuDevice::packed_bytes(DType type, std::int64_t rows, std::int64_t columns,
                                    const PackSpec& spec) const {
  return packed_matrix_bytes(type, rows, columns, spec, compute_, in_place_, isa_);
}

Status CpuDevice::check_kv(const KvGroupSpec&, KvType type, int) const {
  if (type != KvType::fp8) return {};
  return error(StatusCode::unsupported,
               "{}: keys and values in fp8 are not supported; there is: f16, bf16, f32, int8",
               name());
}

std::size_t CpuDevice::kv_layer_bytes(const KvGroupSpec& spec, KvType type, int page_size) const {
  return static_cast<std::size_t>(spec.kv_heads) *
         layout(type, page_size, spec.head_size).head_bytes;
}

KvLayout CpuDevice::layout(KvType type, int page_size, int head_size) const {
  return pairs(type) != nullptr ? paired_kv_layout(page_size, head_size)
                                : kv_layout(type, page_size, head_size);
}

Status CpuDevice::reserve(const WorkLimits& limits) {
  if (scratch_) return error(StatusCode::internal, "{}: reserve was called twice", name());
  Result<Scratch> scratch = Scratch::create(*this, limits, threads());
  if (!scratch) return scratch.status();
  scratch_ = std::move(*scratch);
  return {};
}

std::size_t CpuDevice::scratch_bytes(const WorkLimits& limits) const {
  return plan_scratch(limits, threads()).total;
}

}  // namespace quire::cpu
