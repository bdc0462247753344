#include "operations/operations.h"

namespace quire::cuda {

Status end_pass(CudaDevice& device, const EndPassArgs&) {
  return device.wait();
}

}  // namespace quire::cuda
