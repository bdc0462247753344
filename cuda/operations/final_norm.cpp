#include "base/error.h"
#include "operations/operations.h"
#include "operations/row_kernels.h"

namespace quire::cuda {

Status final_norm(CudaDevice& device, const FinalNormArgs& args) {
  const PassTables& tables = device.scratch()->tables();
  const auto count = static_cast<int>(args.rows.size());
  if (args.first < 0 || count > tables.logit_row_count() - args.first) {
    return error(StatusCode::internal, "final_norm: rows {} to {} of {}", args.first,
                 args.first + count, tables.logit_row_count());
  }
  return norm_rows(device.launch(), args.hidden, tables.logit_rows() + args.first, count,
                   args.width, args.norm, static_cast<__nv_bfloat16*>(args.output));
}

}  // namespace quire::cuda
