#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <quire/status.h>

#include "attention/tile_loop.h"
#include "cpu/matmul.h"
#include "device/device.h"
#include "sampling/draw.h"

namespace quire::cpu {

// Rows of one expert that are computed together.
constexpr int kExpertRows = 64;
// Most rows of which each thread can keep its own normalised and prepared copy.
constexpr int kBlockRows = 256;
// Bytes of a thread's outputs of a product that it goes on with at once.
constexpr std::int64_t kChunkBytes = std::int64_t{128} << 10;

// Activations of some rows of a pass.
struct RowBlock {
  Activations activations;
  int first_row = 0;  // of the pass
};

// The parts of the product of some rows that a thread has finished and not reported.
struct alignas(64) FinishedParts {
  std::int64_t token_piece = 0;
  std::int32_t count = 0;
};

// Where each part of the scratch memory begins, in bytes; multiples of 64.
struct ScratchPlan {
  std::size_t normed = 0;       // float [rows][width]
  std::size_t product = 0;      // float [rows][max(width, 2 * heads * head_size)]
  std::size_t activations = 0;  // activation_bytes(rows, width)
  std::size_t blocks = 0;       // of each thread, block_bytes
  std::size_t block_bytes = 0;  // float [block_rows][block_width], and prepared
  std::size_t chunks = 0;       // of each thread, 2 x chunk_bytes
  std::size_t chunk_bytes = 0;
  std::size_t experts = 0;         // 2 x float [kExpertRows][width]
  std::size_t partials = 0;        // float [partial_rows][padded head size]
  std::size_t partial_states = 0;  // SoftmaxState [partial_rows]
  std::size_t tiles = 0;           // of each thread, tile_bytes
  std::size_t tile_bytes = 0;
  std::size_t draws = 0;  // bytes of the vectors of each thread's draws
  std::size_t bytes = 0;  // of the buffer
  std::size_t total = 0;  // with the draws; SIZE_MAX if it does not fit
  std::size_t partial_rows = 0;
  int block_rows = 0;
  int block_width = 0;
};

ScratchPlan plan_scratch(const WorkLimits& limits, int threads);

// Memory of the operations; made once, so that none of them allocates.
class Scratch {
 public:
  static Result<Scratch> create(Device& device, const WorkLimits& limits, int threads);

  const WorkLimits& limits() const { return limits_; }
  float* normed() { return at<float>(plan_.normed); }
  float* product() { return at<float>(plan_.product); }
  // What was kept there is forgotten.
  std::byte* activations() {
    kept_ = {};
    return at<std::byte>(plan_.activations);
  }
  // An operation has prepared all of its output, the array, in `activations()` for the next one to
  // multiply. Without forms.floats it has written nothing else of it.
  void keep(const Activations& prepared, const void* array);
  // The same if the array holds so many rows, once; otherwise of 0 rows.
  Activations take_kept(const void* array, int rows, int columns);
  // The prepared form was the only one and is gone.
  bool lost(const void* array) const { return array == unwritten_; }

  // One thread's copy of some rows.
  struct alignas(64) BlockState {
    std::int64_t phase = 0;  // in which it was made
    RowBlock block;
  };
  struct BlockMemory {
    float* normed = nullptr;        // [block_rows()][width]
    std::byte* prepared = nullptr;  // activation_bytes(block_rows(), width)
    BlockState* state = nullptr;
  };
  std::int64_t next_phase() { return ++phase_; }
  int block_rows() const { return plan_.block_rows; }
  int block_width() const { return plan_.block_width; }  // the largest width
  BlockMemory block(int worker);
  std::span<FinishedParts> finished() { return finished_; }
  // One thread's outputs of a product, 0 or 1, which lie together.
  float* chunk(int worker, int which) {
    return at<float>(plan_.chunks + plan_.chunk_bytes * (2 * static_cast<std::size_t>(worker) +
                                                         static_cast<std::size_t>(which)));
  }

  float* expert(int which) {  // 0, 1
    return at<float>(plan_.experts) + static_cast<std::size_t>(which) * kExpertRows * limits_.width;
  }
  float* partials() { return at<float>(plan_.partials); }
  attention::SoftmaxState* partial_states() {
    return at<attention::SoftmaxState>(plan_.partial_states);
  }
  std::size_t partial_rows() const { return plan_.partial_rows; }
  DrawScratch& draw(int worker) { return draws_[static_cast<std::size_t>(worker)]; }

  // One thread's memory for a tile.
  struct TileMemory {
    attention::TileScratch loop;
    float* queries = nullptr;  // [kTileRows][width]
    float* output = nullptr;   // [kTileRows][width]
  };
  TileMemory tile(int worker, int head_size);

 private:
  template <class T>
  T* at(std::size_t offset) {
    return reinterpret_cast<T*>(buffer_->data() + offset);
  }
  WorkLimits limits_;
  ScratchPlan plan_;
  std::unique_ptr<DeviceBuffer> buffer_;
  std::vector<DrawScratch> draws_;
  std::vector<BlockState> blocks_;       // of each thread
  std::vector<FinishedParts> finished_;  // of each thread
  std::int64_t phase_ = 0;
  Activations kept_;
  const void* kept_array_ = nullptr;
  const void* unwritten_ = nullptr;
};

}  // namespace quire::cpu
