#include "attention/write_kv.h"
#include "base/error.h"
#include "operations/kv_view_of.h"
#include "operations/operations.h"

namespace quire::cuda {

Status copy_pages(CudaDevice& device, const CopyPagesArgs& args) {
  for (const PassTables::CopyBatch& batch : device.scratch()->tables().copies()) {
    const auto group = static_cast<std::size_t>(batch.group);
    if (group >= args.groups.size() || group >= args.specs.size()) {
      return error(StatusCode::internal, "copy_pages: group {} of {}", batch.group,
                   args.groups.size());
    }
    Status status = copy_kv_pages(device.launch(), kv_view_of(args.groups[group]),
                                  args.specs[group].layers, batch.copies, batch.count);
    if (!status.ok()) return status;
  }
  return {};
}

}  // namespace quire::cuda
