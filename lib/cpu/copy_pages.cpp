#include <cstring>

#include "base/error.h"
#include "cpu/cpu_device.h"
#include "cpu/operations.h"

namespace quire::cpu {

// Whole pages: what lies behind the copied tokens is written before it is read.
Status copy_pages(Device&, const CopyPagesArgs& args) {
  for (const PageCopy& copy : args.copies) {
    if (copy.group < 0 || static_cast<std::size_t>(copy.group) >= args.groups.size() ||
        copy.from < 0 || copy.to < 0) {
      return error(StatusCode::internal, "copy_pages: page {} to {} of group {} of {}", copy.from,
                   copy.to, copy.group, args.groups.size());
    }
    if (copy.from == copy.to) continue;
    const KvLayer& group = args.groups[static_cast<std::size_t>(copy.group)];
    std::memcpy(group.base + group.page_bytes * static_cast<std::size_t>(copy.to),
                group.base + group.page_bytes * static_cast<std::size_t>(copy.from),
                group.page_bytes);
  }
  return {};
}

}  // namespace quire::cpu
