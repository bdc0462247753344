#pragma once

#include "base/cuda_device.h"

namespace quire::testing {

// The GPU that the engine opened last: opened_device.cpp stands in for open_device.cpp. Valid as
// long as that engine is.
cuda::CudaDevice& opened_device();

}  // namespace quire::testing
