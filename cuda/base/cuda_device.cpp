#include "base/cuda_device.h"

#include <algorithm>
#include <utility>

#include "attention/write_kv.h"
#include "base/current_device.h"
#include "base/error.h"
#include "matmul/product.h"
#include "operations/operations.h"
#include "operations/row_kernels.h"

namespace quire::cuda {
namespace {

constexpr int kHeadSizes[] = {16, 24, 32, 64, 80, 96, 128, 192, 256};

}  // namespace

Result<std::unique_ptr<CudaDevice>> CudaDevice::open(int ordinal, const EngineOptions& options) {
  const CurrentDevice current(ordinal);
  if (!current.status().ok()) return current.status();
  std::unique_ptr<CudaDevice> device(new CudaDevice(ordinal, options));
  int major = 0, minor = 0, multiprocessors = 0;
  for (auto [to, attribute] : {std::pair{&major, cudaDevAttrComputeCapabilityMajor},
                               {&minor, cudaDevAttrComputeCapabilityMinor},
                               {&multiprocessors, cudaDevAttrMultiProcessorCount}}) {
    Status status =
        status_of(cudaDeviceGetAttribute(to, attribute, ordinal), "cudaDeviceGetAttribute");
    if (!status.ok()) return status;
  }
  if (Status status = check_kernels(); !status.ok()) {
    return error(StatusCode::unsupported,
                 "cuda:{}: this build has no code for compute capability {}.{}: {}", ordinal, major,
                 minor, status.message());
  }
  auto stream = create_stream();
  if (!stream) return stream.status();
  device->stream_ = std::move(*stream);
  device->launch_.stream = device->stream_.get();
  device->launch_.multiprocessors = multiprocessors;
  device->launch_.compute_capability = 10 * major + minor;
  device->launch_.deterministic = options.cuda.deterministic;
  std::size_t free_bytes = 0;
  Status status = status_of(cudaMemGetInfo(&free_bytes, &device->memory_bytes_), "cudaMemGetInfo");
  if (!status.ok()) return status;
  return device;
}

CudaDevice::~CudaDevice() {
  const CurrentDevice current(ordinal_);
  if (stream_) {
    graphs_.begin(stream_.get(), {});
    cudaStreamSynchronize(stream_.get());
  }
  graphs_ = {};
  scratch_.reset();
  library_.reset();
  uploader_.reset();
  stream_.reset();
}

// While a pass is recorded the driver frees nothing.
void CudaDevice::leave_pass() {
  const CurrentDevice current(ordinal_);
  graphs_.begin(stream_.get(), {});
}

std::string CudaDevice::name() const {
  return "cuda:" + std::to_string(ordinal_);
}

Status CudaDevice::wait() {
  return status_of(cudaStreamSynchronize(stream_.get()), name().c_str());
}

// A pass waits for the processor anyway once it is queued, so columns need no cut. Rows: as many as
// a small share of the memory holds, for weights of the head are read once for each such block.
HeadBlock CudaDevice::head_block(std::int64_t vocabulary) const {
  constexpr std::size_t kShare = 512;
  constexpr std::size_t kFewest = 64, kMost = 1024;
  const auto row = static_cast<std::size_t>(std::max<std::int64_t>(vocabulary, 1)) * sizeof(float);
  const std::size_t rows = memory_bytes_ / kShare / row / kFewest * kFewest;
  return {static_cast<int>(std::clamp(rows, kFewest, kMost)), vocabulary};
}

Result<std::unique_ptr<DeviceBuffer>> CudaDevice::allocate(std::size_t bytes) {
  const CurrentDevice current(ordinal_);
  if (!current.status().ok()) return current.status();
  auto buffer = CudaBuffer::create(ordinal_, bytes);
  if (!buffer) return buffer.status();
  Status status =
      status_of(cudaMemsetAsync((*buffer)->data(), 0, bytes, stream_.get()), "cudaMemsetAsync");
  if (!status.ok()) return status;
  return std::unique_ptr<DeviceBuffer>(std::move(*buffer));
}

Status CudaDevice::write(void* to, const void* from, std::size_t bytes) {
  const CurrentDevice current(ordinal_);
  if (!current.status().ok()) return current.status();
  Status status = status_of(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream_.get()),
                            "cudaMemcpyAsync");
  return status.ok() ? wait() : status;
}

Status CudaDevice::read(void* to, const void* from, std::size_t bytes) {
  const CurrentDevice current(ordinal_);
  if (!current.status().ok()) return current.status();
  Status status = status_of(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream_.get()),
                            "cudaMemcpyAsync");
  return status.ok() ? wait() : status;
}

Result<std::unique_ptr<PackedMatrix>> CudaDevice::pack(const TensorView& stored,
                                                       const PackSpec& spec) {
  const CurrentDevice current(ordinal_);
  if (!current.status().ok()) return current.status();
  return guarded("pack", [&]() -> Result<std::unique_ptr<PackedMatrix>> {
    if (uploader_ == nullptr) {
      auto uploader = Uploader::create(ordinal_, options_);
      if (!uploader) return uploader.status();
      uploader_ = std::move(*uploader);
    }
    auto rows = uploader_->upload(stream_.get(), stored.bytes);
    if (!rows) return rows.status();
    return pack_device_rows(launch_, *rows, stored, spec);
  });
}

std::size_t CudaDevice::packed_bytes(DType type, std::int64_t rows, std::int64_t columns,
                                     const PackSpec& spec) const {
  return packed_matrix_bytes(type, rows, columns, spec);
}

Status CudaDevice::check_kv(const KvGroupSpec& spec, KvType type, int page_size) const {
  if (type == KvType::f32) {
    return error(StatusCode::unsupported,
                 "{}: keys and values in f32 are not supported; there is: bf16, f16, int8, fp8",
                 name());
  }
  if (type == KvType::fp8 && page_size < kFp8Box) {
    return error(StatusCode::unsupported,
                 "{}: keys and values in fp8 need pages of {} tokens or more, not {}", name(),
                 kFp8Box, page_size);
  }
  if (std::find(std::begin(kHeadSizes), std::end(kHeadSizes), spec.head_size) ==
      std::end(kHeadSizes)) {
    return error(StatusCode::unsupported,
                 "{}: heads of {} elements are not supported; there is: 16, 24, 32, 64, 80, 96, "
                 "128, 192, 256",
                 name(), spec.head_size);
  }
  return {};
}

std::size_t CudaDevice::kv_layer_bytes(const KvGroupSpec& spec, KvType type, int page_size) const {
  return kv_slab_bytes(type, page_size, spec.kv_heads, spec.head_size);
}

Status CudaDevice::reserve(const WorkLimits& limits) {
  const CurrentDevice current(ordinal_);
  if (!current.status().ok()) return current.status();
  if (scratch_) return error(StatusCode::internal, "{}: reserve was called twice", name());
  // The weights are there by now.
  if (Status status = wait(); !status.ok()) return status;
  uploader_.reset();
  if (!launch_.deterministic) library_ = LibraryProducts::open();
  auto scratch = CudaScratch::create(ordinal_, limits, launch_.multiprocessors, stream_.get());
  if (!scratch) return scratch.status();
  scratch_ = std::move(*scratch);
  return {};
}

std::size_t CudaDevice::scratch_bytes(const WorkLimits& limits) const {
  return plan_cuda_scratch(limits, launch_.multiprocessors).total;
}

}  // namespace quire::cuda
