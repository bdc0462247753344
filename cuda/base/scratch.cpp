#include "base/scratch.h"

#include <algorithm>

#include "attention/paged_attention.h"
#include "base/checked.h"
#include "matmul/product.h"

namespace quire::cuda {
namespace {

constexpr std::size_t kAlignment = 256;

// Of one row of a mixture.
std::size_t place_bytes(const WorkLimits& limits) {
  return static_cast<std::size_t>(std::max(limits.experts_used, 1)) * sizeof(std::int32_t);
}

class Offsets {
 public:
  std::size_t add(CheckedSize bytes) {
    const std::size_t offset = total_;
    const auto end = (CheckedSize(total_) + bytes + kAlignment).get();
    failed_ = failed_ || !end;
    total_ = end ? *end / kAlignment * kAlignment : 0;
    return offset;
  }
  std::size_t total() const { return failed_ ? SIZE_MAX : total_; }

 private:
  std::size_t total_ = 0;
  bool failed_ = false;
};

}  // namespace

CudaScratchPlan plan_cuda_scratch(const WorkLimits& limits, int multiprocessors) {
  const auto rows = static_cast<std::uint64_t>(std::max({limits.rows, limits.logit_rows, 1}));
  const auto width = static_cast<std::int64_t>(std::max(limits.width, 1));
  const std::int64_t heads =
      (std::int64_t{limits.heads} + 2 * std::int64_t{limits.kv_heads}) * limits.head_size;
  const bool mixture = limits.experts > 0;
  CudaScratchPlan plan;
  plan.product_width = std::max(width, heads);
  if (mixture) {
    plan.product_width = std::max({plan.product_width, 2 * width, std::int64_t{limits.experts}});
  }
  Offsets offsets;
  plan.normed = offsets.add(CheckedSize(rows) * static_cast<std::uint64_t>(width) * 2);
  plan.product =
      offsets.add(CheckedSize(rows) * static_cast<std::uint64_t>(plan.product_width) * 4);
  plan.attention = offsets.add(
      attention_workspace_bytes(limits.rows, std::max(limits.sequences, 1), limits.heads,
                                limits.head_size, std::max(limits.context, 1), multiprocessors));
  plan.plan_stride =
      round_up(attention_plan_bytes(limits.rows, std::max(limits.sequences, 1), limits.heads,
                                    std::max(limits.context, 1), multiprocessors),
               kAlignment);
  plan.plans = offsets.add(CheckedSize(plan.plan_stride) *
                           static_cast<std::uint64_t>(std::max(limits.groups, 1)));
  plan.multiply_bytes = product_workspace_bytes(
      static_cast<int>(rows), std::max<std::int64_t>(plan.product_width, limits.vocabulary));
  plan.multiply = offsets.add(plan.multiply_bytes);
  if (mixture) {
    plan.gathered = offsets.add(CheckedSize(rows) * static_cast<std::uint64_t>(width) * 2);
    plan.expert_sums = offsets.add(CheckedSize(rows) * static_cast<std::uint64_t>(width) * 4);
    plan.places = offsets.add(CheckedSize(rows) * place_bytes(limits));
  }
  plan.bytes = offsets.total();
  plan.total = (CheckedSize(plan.bytes) + PassTables::device_bytes(limits) +
                TokenSampler::device_bytes(std::max(limits.logit_rows, 1), limits.vocabulary))
                   .get()
                   .value_or(SIZE_MAX);
  return plan;
}

Result<CudaScratch> CudaScratch::create(int ordinal, const WorkLimits& limits, int multiprocessors,
                                        cudaStream_t stream) {
  CudaScratch scratch;
  scratch.limits_ = limits;
  scratch.plan_ = plan_cuda_scratch(limits, multiprocessors);
  auto buffer = CudaBuffer::create(ordinal, scratch.plan_.bytes);
  if (!buffer) return buffer.status();
  scratch.buffer_ = std::move(*buffer);
  scratch.plans_ = AttentionPlans(scratch.buffer_->data() + scratch.plan_.plans,
                                  scratch.plan_.plan_stride, std::max(limits.groups, 1));
  // Workspaces have counters that begin at 0.
  Status status = status_of(
      cudaMemsetAsync(scratch.buffer_->data(), 0, scratch.plan_.bytes, stream), "cudaMemsetAsync");
  if (!status.ok()) return status;
  auto tables = PassTables::create(ordinal, limits);
  if (!tables) return tables.status();
  scratch.tables_ = std::move(*tables);
  auto sampler = TokenSampler::create(ordinal, std::max(limits.logit_rows, 1), limits.vocabulary);
  if (!sampler) return sampler.status();
  scratch.sampler_ = std::move(*sampler);
  if (limits.experts > 0) {
    auto host = pinned_bytes(static_cast<std::size_t>(limits.rows) * place_bytes(limits));
    if (!host) return host.status();
    scratch.host_places_ = std::move(*host);
  }
  return scratch;
}

}  // namespace quire::cuda
