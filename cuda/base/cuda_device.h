#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/launch.h"
#include "base/memory.h"
#include "base/pass_graphs.h"
#include "base/scratch.h"
#include "base/uploader.h"
#include "device/device.h"
#include "matmul/library_products.h"

namespace quire::cuda {

// An NVIDIA GPU as a device. Everything is queued on one stream; what waits for it says so.
class CudaDevice final : public Device {
 public:
  static Result<std::unique_ptr<CudaDevice>> open(int ordinal, const EngineOptions& options);
  ~CudaDevice() override;

  std::string name() const override;
  int threads() const override { return 1; }
  int default_page_size() const override { return 64; }
  KvType default_kv_type() const override { return KvType::bf16; }
  int activation_bytes() const override { return 2; }
  HeadBlock head_block(std::int64_t vocabulary) const override;
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
  void rest() override {}
  void leave_pass() override;

  int ordinal() const { return ordinal_; }
  const Launch& launch() const { return launch_; }
  // Null before `reserve`.
  CudaScratch* scratch() { return scratch_ ? &*scratch_ : nullptr; }
  // For products of many rows; null: there is none, or `deterministic` forbids it.
  LibraryProducts* library() { return library_.get(); }
  PassGraphs& graphs() { return graphs_; }
  // Waits for everything queued so far; its errors are those of any operation since the last wait.
  Status wait();

 private:
  CudaDevice(int ordinal, const EngineOptions& options) : ordinal_(ordinal), options_(options) {}

  int ordinal_;
  EngineOptions options_;
  Stream stream_;
  Launch launch_;
  std::size_t memory_bytes_ = 0;        // of the whole GPU
  std::unique_ptr<Uploader> uploader_;  // while the model is loaded
  std::unique_ptr<LibraryProducts> library_;
  std::optional<CudaScratch> scratch_;
  PassGraphs graphs_;
};

}  // namespace quire::cuda
