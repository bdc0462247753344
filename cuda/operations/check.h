#pragma once

#include <cstdint>

#include "base/cuda_device.h"
#include "device/packed_matrix.h"

namespace quire::cuda {

// Checks of what operations need; `what` names the operation in the message.
Status check_rows(CudaDevice& device, const char* what, int rows, std::int64_t width);
Status check_linear(const char* what, const Linear* linear, std::int64_t out, std::int64_t in);

}  // namespace quire::cuda
