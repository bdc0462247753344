#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <quire/status.h>

#include "attention/kv_view.h"
#include "attention/write_kv.h"
#include "base/memory.h"
#include "base/shared_prefix.h"
#include "device/device.h"
#include "device/model_ops.h"

namespace quire::cuda {

// From where on a prefix that sequences share is read once for them, by a kernel of its own, and
// merged: by bytes of a layer's keys and values in 16 bits that are read less often then. Measured
// on an H200 (docs/performance.md).
struct PrefixLimits {
  std::int64_t least_bytes = std::int64_t{96} << 20;
  // Of a long one.
  std::int64_t long_bytes = std::int64_t{256} << 20;
  int long_keys = 1024;
};

// The integers of a pass in device memory, all brought there by one copy from pinned memory:
// tokens, positions, page tables, copies of pages.
class PassTables {
 public:
  static std::size_t device_bytes(const WorkLimits& limits);
  static Result<std::unique_ptr<PassTables>> create(int ordinal, const WorkLimits& limits);

  // Checks the pass against the limits and queues the copy.
  Status upload(cudaStream_t stream, const BeginPassArgs& args);

  int rows() const { return rows_; }
  const std::int32_t* tokens() const { return tokens_; }  // [rows]
  // Where tokens that draws of the pass before choose are to be put, and which draws: both null if
  // there are none.
  std::int32_t* drawn_tokens() { return drawn_tokens_; }              // [rows]
  const std::int32_t* token_draws() const { return token_draws_; }    // [rows]
  const std::int32_t* positions() const { return positions_; }        // [rows]
  const std::int32_t* rope_choices() const { return rope_choices_; }  // [rows]
  const std::int32_t* logit_rows() const { return logit_rows_; }      // [logit_row_count]
  int logit_row_count() const { return logit_row_count_; }
  int groups() const { return static_cast<int>(groups_.size()); }
  const SequenceTable& group(int index) const { return groups_[static_cast<std::size_t>(index)]; }
  // Bit i: whether group(i) has a prefix, and a long one.
  std::uint64_t groups_with_prefix() const { return groups_with_prefix_; }
  std::uint64_t groups_with_long_prefix() const { return groups_with_long_prefix_; }
  void set_prefix_limits(const PrefixLimits& limits) { prefix_limits_ = limits; }

  // Copies of pages that may be done together: none reads or writes what another one writes.
  struct CopyBatch {
    int group = 0;
    const KvCopy* copies = nullptr;  // [count], device memory
    int count = 0;
  };
  const std::vector<CopyBatch>& copies() const { return copies_; }

 private:
  explicit PassTables(const WorkLimits& limits) : limits_(limits) {}
  static std::size_t capacity(const WorkLimits& limits);  // integers; SIZE_MAX if too many
  Status check(const BeginPassArgs& args) const;
  Status add_sequences(const BeginPassArgs& args);
  Status add_copies(const BeginPassArgs& args);
  // Room for `count` integers: where to write them, and where the device will see them.
  struct Room {
    std::int32_t* host = nullptr;
    const std::int32_t* device = nullptr;
  };
  Result<Room> take(std::size_t count);
  Result<const std::int32_t*> add(std::span<const std::int32_t> values);

  void add_prefix(std::size_t group, const SharedPrefix& prefix, const SharedPrefix* device);

  WorkLimits limits_;
  PrefixLimits prefix_limits_;
  PrefixFinder prefix_finder_;
  std::uint64_t groups_with_prefix_ = 0, groups_with_long_prefix_ = 0;
  PinnedBytes host_;
  std::unique_ptr<CudaBuffer> device_;
  Event copied_;
  std::size_t used_ = 0;  // integers
  int rows_ = 0;
  int logit_row_count_ = 0;
  const std::int32_t* tokens_ = nullptr;
  std::int32_t* drawn_tokens_ = nullptr;
  const std::int32_t* token_draws_ = nullptr;
  const std::int32_t* positions_ = nullptr;
  const std::int32_t* rope_choices_ = nullptr;
  const std::int32_t* logit_rows_ = nullptr;
  std::vector<SequenceTable> groups_;
  std::vector<CopyBatch> copies_;
};

}  // namespace quire::cuda
