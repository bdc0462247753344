#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <quire/engine_options.h>
#include <quire/status.h>

#include "device/kv_cache.h"
#include "device/model_ops.h"
#include "device/packed_matrix.h"
#include "tensor/tensor_view.h"

namespace quire {

// Device memory; freed by the destructor. Read and written through the Device and its operations:
// only the processor's is memory of the host.
class DeviceBuffer {
 public:
  virtual ~DeviceBuffer() = default;
  virtual std::byte* data() = 0;
  virtual std::size_t size() const = 0;
};

// Largest shapes that operations will be called with; fixes the scratch memory of the device.
struct WorkLimits {
  int rows = 0;       // tokens of a pass
  int sequences = 0;  // of a pass
  int groups = 0;     // of keys and values
  int page_size = 0;  // tokens
  int width = 0;      // widest input or output of any Linear but the head
  int hidden = 0;     // width of the residual stream; 0: as `width`
  int heads = 0;      // query heads
  int kv_heads = 0;
  int head_size = 0;
  int experts = 0;       // of a mixture; 0: there is none
  int experts_used = 0;  // by a row
  int logit_rows = 0;    // rows of one head call
  int vocabulary = 0;
  int context = 0;  // tokens of a sequence
};

// What one call of the head computes: rows of a pass, and columns of the vocabulary.
struct HeadBlock {
  int rows = 0;
  std::int64_t columns = 0;  // a multiple of 64, or all
};

// Where a model is computed: memory, packing of weights, and the table of operations. Used from one
// thread at a time.
class Device {
 public:
  virtual ~Device() = default;

  virtual std::string name() const = 0;  // "cpu:avx512"
  virtual int threads() const = 0;
  virtual int default_page_size() const = 0;  // tokens
  virtual KvType default_kv_type() const = 0;
  // Bytes of an element of the arrays between operations: queries, attention's output, the MLP's
  // inner rows and what the head reads.
  virtual int activation_bytes() const = 0;
  // The most that a call of the head should compute of a vocabulary: small enough that a pass can
  // be left between two calls, large enough that weights are not read more often than needed. The
  // logits of that many rows are kept in memory.
  virtual HeadBlock head_block(std::int64_t vocabulary) const = 0;
  virtual const ModelOps& ops() const = 0;

  // Zero-filled memory, aligned to 64 bytes.
  virtual Result<std::unique_ptr<DeviceBuffer>> allocate(std::size_t bytes) = 0;

  // Copies of host memory to device memory and back, done when they return, after all operations
  // so far.
  virtual Status write(void* to, const void* from, std::size_t bytes) = 0;
  virtual Status read(void* to, const void* from, std::size_t bytes) = 0;

  // Turns one stored matrix into what the device multiplies, using all threads.
  virtual Result<std::unique_ptr<PackedMatrix>> pack(const TensorView& stored,
                                                     const PackSpec& spec) = 0;
  // Bytes that pack would hold for it: exact, for estimates.
  virtual std::size_t packed_bytes(DType type, std::int64_t rows, std::int64_t columns,
                                   const PackSpec& spec) const = 0;

  // Errors: unsupported, if the device cannot compute attention over such keys and values.
  virtual Status check_kv(const KvGroupSpec& spec, KvType type, int page_size) const = 0;
  // Bytes of one layer's slab in a page: page_size tokens of K and V, a multiple of 64.
  virtual std::size_t kv_layer_bytes(const KvGroupSpec& spec, KvType type, int page_size) const = 0;

  // Makes the scratch memory for operations within the limits; called once, before any operation.
  virtual Status reserve(const WorkLimits& limits) = 0;
  virtual std::size_t scratch_bytes(const WorkLimits& limits) const = 0;

  // No operation will come soon: threads stop spinning.
  virtual void rest() = 0;
  // The pass begun last gets no more operations, though it lacks some: what the device holds open
  // for it is closed, so that memory can be given back.
  virtual void leave_pass() {}
};

// Opens the device that options.device names, or says which names there are.
Result<std::unique_ptr<Device>> open_device(const EngineOptions& options);

}  // namespace quire
