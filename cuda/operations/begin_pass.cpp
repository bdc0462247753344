#include "operations/operations.h"
#include "operations/row_kernels.h"

namespace quire::cuda {

Status begin_pass(CudaDevice& device, const BeginPassArgs& args) {
  PassTables& tables = device.scratch()->tables();
  device.scratch()->plans().forget();
  if (Status s = tables.upload(device.launch().stream, args); !s.ok()) return s;
  for (const RotationArgs& table : args.rotations) {
    Status status = rotation_rows(device.launch(), tables.positions(), tables.rope_choices(),
                                  tables.rows(), table);
    if (!status.ok()) return status;
  }
  return {};
}

}  // namespace quire::cuda
