#pragma once

#include <cstddef>

#include "attention/write_kv.h"

namespace quire::cuda {

// The kernels behind write_kv and copy_kv_pages, for calls that were checked.
// A warp a head, any call; eight dimensions a thread, for heads of a power of two that are rotated
// as a whole, keys and values in 16 bits.
Status launch_write_heads(const Launch& launch, const WriteKvCall& call);
bool can_write_vectors(const WriteKvCall& call);
Status launch_write_vectors(const Launch& launch, const WriteKvCall& call);
Status launch_copy_kv_pages(const Launch& launch, const KvView& first_layer, int layers,
                            const KvCopy* copies, int count);

}  // namespace quire::cuda
