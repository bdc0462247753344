#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <quire/status.h>

#include "base/launch.h"
#include "device/model_ops.h"
#include "sampling/draw.h"
#include "sampling/queued_draws.h"

namespace quire::cuda {

// Draws the tokens of a pass on the GPU, so that only ids and the wanted log-probabilities come
// back. What the kernel does not do (more than kMostTopLogprobs log-probabilities, a nucleus of
// thousands of tokens) is drawn by quire::draw_token over a copied row.
class TokenSampler {
 public:
  // For up to `rows` draws at a time, of which some may change logits. Errors: out_of_memory,
  // device_error.
  static Result<std::unique_ptr<TokenSampler>> create(int ordinal, int rows, int vocabulary);
  // Device bytes that create allocates.
  static std::size_t device_bytes(int rows, int vocabulary);
  ~TokenSampler();
  TokenSampler(const TokenSampler&) = delete;
  TokenSampler& operator=(const TokenSampler&) = delete;

  // `logits` of the draws are device memory, written by earlier work on the stream. Waits for the
  // results: one for each draw.
  Status run(const Launch& launch, std::span<const DrawArgs> draws, std::span<DrawResult> results);

  // Queues the draws and does not wait: their number, for `collect`, or 0 if they are not all for
  // the kernel or too many for one launch, or if draws of two calls are awaited already.
  Result<std::uint64_t> queue(const Launch& launch, std::span<const DrawArgs> draws);
  // Results of queued draws, one for each; `wait`: until they are there. A draw that turns out to
  // be for the host is lost, and the others with it.
  Result<DrawsState> collect(std::uint64_t number, std::span<DrawResult> results, bool wait);
  // What queued draws choose, where the device sees it, for work queued after them; null if
  // there are none of that number.
  const DeviceDrawResult* results_of(std::uint64_t number) const;
  // Nobody awaits anything any more.
  void forget();

 private:
  struct Slot {
    QueuedDraws draws;
    std::uint64_t number = 0;         // of awaited draws; 0: none
    std::vector<DrawArgs> described;  // lists may be gone by now: only their sizes are read
  };

  TokenSampler(int ordinal, int rows, int vocabulary)
      : ordinal_(ordinal), rows_(rows), vocabulary_(vocabulary) {}
  Status allocate();
  bool on_device(const DrawArgs& args) const;
  std::size_t next_batch(std::span<const DrawArgs> draws) const;
  Status run_batch(const Launch& launch, std::span<const DrawArgs> draws,
                   std::span<DrawResult> results);
  // One that nobody awaits, when the device is done with it; null if both are awaited.
  Result<Slot*> free_slot();
  Status draw_on_host(const Launch& launch, const DrawArgs& args, DrawResult& result);
  void take_result(const DrawArgs& args, const DeviceDrawResult& from, DrawResult& to) const;

  int ordinal_;
  int rows_;
  int vocabulary_;
  int most_vocabulary_ = 0;      // of the kernel
  std::byte* device_ = nullptr;  // of the changed rows
  ChangedRows changed_;
  std::array<Slot, 2> slots_;
  std::uint64_t last_number_ = 0;
  std::vector<float> host_row_;
  DrawScratch host_scratch_;
};

}  // namespace quire::cuda
