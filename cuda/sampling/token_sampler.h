#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <quire/status.h>

#include "base/launch.h"
#include "base/memory.h"
#include "sampling/device_draw.h"
#include "sampling/draw.h"

namespace quire::cuda {

// Draws the tokens of a pass on the GPU, so that only ids and the wanted log-probabilities come
// back. What the kernel does not do (more than kMostTopLogprobs log-probabilities, a nucleus of
// thousands of tokens) is drawn by quire::draw_token over a copied row.
class TokenSampler {
 public:
  // For up to `rows` draws at a time, of which some may change logits. Errors: out_of_memory, device_error.
  static Result<std::unique_ptr<TokenSampler>> create(int rows, int vocabulary);
  // Device bytes that create allocates.
  static std::size_t device_bytes(int rows, int vocabulary);
  ~TokenSampler();
  TokenSampler(const TokenSampler&) = delete;
  TokenSampler& operator=(const TokenSampler&) = delete;

  // `logits` of the draws are device memory, written by earlier work on the stream. Waits for the
  // results: one for each draw.
  Status run(const Launch& launch, std::span<const DrawArgs> draws, std::span<DrawResult> results);

 private:
  TokenSampler(int rows, int vocabulary) : rows_(rows), vocabulary_(vocabulary) {}
  Status allocate();
  bool on_device(const DrawArgs& args) const;
  std::size_t next_batch(std::span<const DrawArgs> draws) const;
  Status run_batch(const Launch& launch, std::span<const DrawArgs> draws,
                   std::span<DrawResult> results);
  Status make_room_for_words(std::size_t words);
  // draws_ to results_.
  Status draw_on_device(const Launch& launch, int count);
  Status draw_on_host(const Launch& launch, const DrawArgs& args, DrawResult& result);
  void take_result(const DrawArgs& args, const DeviceDrawResult& from, DrawResult& to) const;
  DeviceDraw describe(const DrawArgs& args, int slot);

  std::int32_t* host_words() { return reinterpret_cast<std::int32_t*>(host_words_.get()); }

  int rows_;
  int vocabulary_;
  int most_vocabulary_ = 0;      // of the kernel
  std::byte* device_ = nullptr;  // changed logits, counts
  float* changed_ = nullptr;     // [changed rows][vocabulary, rounded up]
  std::int32_t* counts_ = nullptr;
  // The kernel itself reads the draws there, and writes the results.
  PinnedBytes host_;
  DeviceDraw* draws_ = nullptr;          // [rows]
  DeviceDrawResult* results_ = nullptr;  // [rows]
  // Lists are read more than once: they are copied.
  PinnedBytes host_words_;
  std::int32_t* device_words_ = nullptr;
  std::size_t words_ = 0, word_capacity_ = 0;
  std::vector<float> host_row_;
  DrawScratch host_scratch_;
};

}  // namespace quire::cuda
