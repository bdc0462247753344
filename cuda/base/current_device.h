#pragma once

#include <cuda_runtime_api.h>

#include "base/launch.h"

namespace quire::cuda {

// Makes a device the calling thread's current one while it lives, then the one before it: the host
// program may use CUDA too.
class CurrentDevice {
 public:
  explicit CurrentDevice(int ordinal) {
    status_ = status_of(cudaGetDevice(&before_), "cudaGetDevice");
    if (!status_.ok() || before_ == ordinal) return;
    status_ = status_of(cudaSetDevice(ordinal), "cudaSetDevice");
    changed_ = status_.ok();
  }
  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;
  ~CurrentDevice() {
    if (changed_) cudaSetDevice(before_);
  }
  const Status& status() const { return status_; }

 private:
  int before_ = 0;
  bool changed_ = false;
  Status status_;
};

}  // namespace quire::cuda
