#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include <quire/status.h>

#include "base/launch.h"
#include "base/memory.h"
#include "device/model_ops.h"
#include "sampling/device_draw.h"

namespace quire::cuda {

// Device memory for draws with penalties, bias or lists: rows of changed logits and of counts, both
// `stride` elements apart. Counts are 0 between calls.
struct ChangedRows {
  float* logits = nullptr;
  std::int32_t* counts = nullptr;
  std::size_t stride = 0;
};

// Whether a draw needs one of these rows.
bool needs_changed_row(const DrawArgs& args);

// The draws of one call while the device computes them: described in host memory that the kernel
// itself reads, and writes the results to.
class QueuedDraws {
 public:
  // For up to `rows` draws. Errors: out_of_memory, device_error.
  Status allocate(int ordinal, int rows);

  // Queues the kernel and the event that tells when it is done. The draws are those that the kernel
  // takes, at most `rows`, with no more that change logits than there are changed rows.
  Status start(const Launch& launch, std::span<const DrawArgs> draws, int vocabulary,
               const ChangedRows& changed);
  // Until the draws queued last are done, if any were.
  Status wait() const;
  // Whether they are not, and have not failed.
  bool computing() const { return cudaEventQuery(computed_.get()) == cudaErrorNotReady; }
  // One for each draw, also to be read by later work of the device.
  const DeviceDrawResult* results() const { return results_; }

 private:
  DeviceDraw describe(const DrawArgs& args);
  void add_words(std::span<const std::int32_t> words, std::int32_t& first, std::int32_t& count);
  Status make_room_for_words(std::size_t words);

  int ordinal_ = 0;
  PinnedBytes host_;
  DeviceDraw* draws_ = nullptr;          // [rows]
  DeviceDrawResult* results_ = nullptr;  // [rows]
  // Lists are read more than once: they are copied.
  PinnedBytes host_words_;
  std::unique_ptr<CudaBuffer> device_words_;
  std::size_t words_ = 0, word_capacity_ = 0;
  Event computed_;
};

}  // namespace quire::cuda
