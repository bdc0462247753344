#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <cuda_bf16.h>

#include <quire/status.h>

#include "base/attention_plans.h"
#include "base/memory.h"
#include "base/pass_tables.h"
#include "device/device.h"
#include "sampling/token_sampler.h"

namespace quire::cuda {

// Where each part of the scratch memory begins, in bytes.
struct CudaScratchPlan {
  std::size_t normed = 0;     // bf16 [rows][width]
  std::size_t product = 0;    // float [rows][product_width]
  std::size_t attention = 0;  // attention_workspace_bytes
  std::size_t plans = 0;      // attention_plan_bytes for each KV group
  std::size_t plan_stride = 0;
  std::size_t multiply = 0;     // product_workspace_bytes
  std::size_t gathered = 0;     // bf16 [rows][width], of one expert; only for mixtures
  std::size_t expert_sums = 0;  // float [rows][width], likewise
  std::size_t places = 0;       // int32 [rows][experts used], likewise
  std::size_t multiply_bytes = 0;
  std::size_t bytes = 0;  // of the buffer
  std::size_t total = 0;  // with the tables of a pass and the sampler's memory; SIZE_MAX: too much
  std::int64_t product_width = 0;
};

CudaScratchPlan plan_cuda_scratch(const WorkLimits& limits, int multiprocessors);

// Memory of the operations; made once, so that none of them allocates.
class CudaScratch {
 public:
  static Result<CudaScratch> create(int ordinal, const WorkLimits& limits, int multiprocessors,
                                    cudaStream_t stream);

  const WorkLimits& limits() const { return limits_; }
  PassTables& tables() { return *tables_; }
  TokenSampler& sampler() { return *sampler_; }
  __nv_bfloat16* normed() { return at<__nv_bfloat16>(plan_.normed); }
  float* product() { return at<float>(plan_.product); }
  std::int64_t product_width() const { return plan_.product_width; }
  std::byte* attention() { return at<std::byte>(plan_.attention); }
  AttentionPlans& plans() { return plans_; }
  std::byte* multiply() { return at<std::byte>(plan_.multiply); }
  std::size_t multiply_bytes() const { return plan_.multiply_bytes; }
  __nv_bfloat16* gathered() { return at<__nv_bfloat16>(plan_.gathered); }
  float* expert_sums() { return at<float>(plan_.expert_sums); }

  // What mlp_input of a mixture leaves for mlp_output: places (row * top_k + slot) by expert, those
  // of expert e from expert_starts()[e] on.
  std::int32_t* places() { return at<std::int32_t>(plan_.places); }
  std::vector<int>& expert_starts() { return expert_starts_; }
  // Pinned memory for as many places.
  std::int32_t* host_places() { return reinterpret_cast<std::int32_t*>(host_places_.get()); }

 private:
  template <class T>
  T* at(std::size_t offset) {
    return reinterpret_cast<T*>(buffer_->data() + offset);
  }
  WorkLimits limits_;
  CudaScratchPlan plan_;
  std::unique_ptr<CudaBuffer> buffer_;
  AttentionPlans plans_;
  std::unique_ptr<PassTables> tables_;
  std::unique_ptr<TokenSampler> sampler_;
  PinnedBytes host_places_;
  std::vector<int> expert_starts_;
};

}  // namespace quire::cuda
