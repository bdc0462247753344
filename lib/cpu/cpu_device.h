#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/thread_pool.h"
#include "cpu/matmul.h"
#include "cpu/pack_buffer.h"
#include "cpu/pair_kernels.h"
#include "cpu/row_kernels.h"
#include "cpu/scratch.h"
#include "device/device.h"

namespace quire::cpu {

// The host as a device. The operations are the same for all instruction sets; what differs is the
// two tables of kernels.
class CpuDevice final : public Device {
 public:
  CpuDevice(Isa isa, const CpuOptions& options, std::unique_ptr<ThreadPool> pool);

  std::string name() const override;
  int threads() const override { return pool_->size(); }
  bool in_place() const { return in_place_; }  // weights are multiplied where they are stored
  int default_page_size() const override { return 16; }
  KvType default_kv_type() const override { return pairs_ ? KvType::bf16 : KvType::f16; }
  int activation_bytes() const override { return sizeof(float); }
  HeadBlock head_block(std::int64_t) const override { return {64, 16384}; }
  const ModelOps& ops() const override;
  Result<std::unique_ptr<DeviceBuffer>> allocate(std::size_t bytes) override;
  Status write(void* to, const void* from, std::size_t bytes) override;
  Status read(void* to, const void* from, std::size_t bytes) override;
  Result<std::unique_ptr<PackedMatrix>> pack(const TensorView& stored,
                                             const PackSpec& spec) override;
  std::size_t packed_bytes(DType type, std::int64_t rows, std::int64_t columns,
                           const PackSpec& spec) const override;
  Status check_kv(const KvGroupSpec& spec, KvType type, int page_size) const override;
  std::size_t kv_layer_bytes(const KvGroupSpec& spec, KvType type, int page_size) const override;
  Status reserve(const WorkLimits& limits) override;
  std::size_t scratch_bytes(const WorkLimits& limits) const override;
  void rest() override { pool_->rest(); }

  ThreadPool& pool() { return *pool_; }
  const RowKernels& row() const { return row_; }
  const MatmulKernels& matmul() const { return matmul_; }
  // The kernels for keys and values of that type in pairs, or null: then `row` has them.
  const PairKernels* pairs(KvType type) const { return type == KvType::bf16 ? pairs_ : nullptr; }
  KvLayout layout(KvType type, int page_size, int head_size) const;
  // What the packed matrices read; floats if there are none.
  const ActivationForms& forms() const { return forms_; }
  // Null before `reserve`.
  Scratch* scratch() { return scratch_ ? &*scratch_ : nullptr; }

 private:
  Isa isa_;
  Compute compute_;
  bool in_place_;
  std::unique_ptr<ThreadPool> pool_;
  PackArena arena_;  // the packed matrices share its huge pages
  const RowKernels& row_;
  const PairKernels* pairs_;  // null: the processor has none, or all is computed in float32
  const MatmulKernels& matmul_;
  ActivationForms forms_{false, false, true};
  bool has_matrices_ = false;
  std::optional<Scratch> scratch_;
};

}  // namespace quire::cpu
