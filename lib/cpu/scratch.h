#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include <quire/status.h>

#include "attention/tile_loop.h"
#include "cpu/matmul.h"
#include "device/device.h"
#include "sampling/draw.h"

namespace quire::cpu {

// Rows of one expert that are computed together.
constexpr int kExpertRows = 64;

// Where each part of the scratch memory begins, in bytes; multiples of 64.
struct ScratchPlan {
  std::size_t normed = 0;          // float [rows][width]
  std::size_t product = 0;         // float [rows][max(width, 2 * heads * head_size)]
  std::size_t activations = 0;     // activation_bytes(rows, width)
  std::size_t experts = 0;         // 3 x float [kExpertRows][width]
  std::size_t partials = 0;        // float [partial_rows][padded head size]
  std::size_t partial_states = 0;  // SoftmaxState [partial_rows]
  std::size_t tiles = 0;           // of each thread, tile_bytes
  std::size_t tile_bytes = 0;
  std::size_t draws = 0;  // bytes of the vectors of each thread's draws
  std::size_t bytes = 0;  // of the buffer
  std::size_t total = 0;  // with the draws; SIZE_MAX if it does not fit
  std::size_t partial_rows = 0;
};

ScratchPlan plan_scratch(const WorkLimits& limits, int threads);

// Memory of the operations; made once, so that none of them allocates.
class Scratch {
 public:
  static Result<Scratch> create(Device& device, const WorkLimits& limits, int threads);

  const WorkLimits& limits() const { return limits_; }
  float* normed() { return at<float>(plan_.normed); }
  float* product() { return at<float>(plan_.product); }
  std::byte* activations() { return at<std::byte>(plan_.activations); }
  float* expert(int which) {  // 0 ... 2
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
};

}  // namespace quire::cpu
