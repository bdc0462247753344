#pragma once

#include <cstddef>

#include "attention/write_kv.h"

namespace quire::cuda {

// The kernels behind write_kv and copy_kv_pages, for calls that were checked.
Status launch_write_kv(const Launch& launch, const WriteKvCall& call);
Status launch_copy_kv_pages(const Launch& launch, const KvView& first_layer, int layers,
                            const KvCopy* copies, int count);

}  // namespace quire::cuda
