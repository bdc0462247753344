#pragma once

#include "attention/kv_view.h"
#include "device/kv_cache.h"

namespace quire::cuda {

inline KvView kv_view_of(const KvLayer& layer) {
  return {layer.base,      layer.page_bytes, layer.layer_offset, layer.type,
          layer.page_size, layer.kv_heads,   layer.head_size};
}

}  // namespace quire::cuda
