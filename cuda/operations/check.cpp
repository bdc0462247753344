#include "operations/check.h"

#include "base/error.h"

namespace quire::cuda {

Status check_rows(CudaDevice& device, const char* what, int rows, std::int64_t width) {
  const WorkLimits& limits = device.scratch()->limits();
  if (rows < 0 || rows > limits.rows || width < 1 || width > limits.width) {
    return error(StatusCode::internal, "{}: {} rows of {} elements, at most {} of {} are reserved",
                 what, rows, width, limits.rows, limits.width);
  }
  return {};
}

Status check_linear(const char* what, const Linear* linear, std::int64_t out, std::int64_t in) {
  if (linear == nullptr || linear->weight == nullptr) {
    return error(StatusCode::internal, "{}: a weight is missing", what);
  }
  if (linear->weight->rows() != out || linear->weight->columns() != in) {
    return error(StatusCode::internal, "{}: a weight of {} x {}, wanted {} x {}", what,
                 linear->weight->rows(), linear->weight->columns(), out, in);
  }
  return {};
}

}  // namespace quire::cuda
