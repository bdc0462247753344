#include "attention/write_kv.h"

#include "attention/page_kernels.h"
#include "base/error.h"

namespace quire::cuda {
namespace {

constexpr int kMaxHead = 256;

Status check_type(KvType type) {
  if (kv_slab_bytes(type, 8, 1, 8) != 0) return {};
  return error(StatusCode::unsupported, "KV type {} on CUDA: types are f16, bf16, int8, fp8",
               static_cast<int>(type));
}

}  // namespace

std::size_t kv_slab_bytes(KvType type, int page_size, int kv_heads, int head_size) {
  const std::size_t tokens = static_cast<std::size_t>(2) * page_size * kv_heads;
  switch (type) {
    case KvType::f16:
    case KvType::bf16:
      return tokens * head_size * 2;
    case KvType::int8:
    case KvType::fp8:
      return tokens * (head_size + sizeof(float));
    default:
      return 0;
  }
}

Status write_kv(const Launch& launch, const WriteKvCall& call) {
  const int size = call.kv.head_size;
  if (size > kMaxHead || size % 8 != 0) {
    return error(StatusCode::unsupported, "head size {} on CUDA: at most {}, a multiple of 8", size,
                 kMaxHead);
  }
  if (call.rope_dimensions > size || call.rope_dimensions % 2 != 0) {
    return error(StatusCode::unsupported, "{} rotated dimensions of a head of {}: an even number",
                 call.rope_dimensions, size);
  }
  if (Status status = check_type(call.kv.type); call.has_kv && !status) return status;
  if (call.kv.type == KvType::fp8 && call.kv.page_size % kFp8Box != 0) {
    return error(StatusCode::unsupported, "fp8 pages of {} tokens: a multiple of {}",
                 call.kv.page_size, kFp8Box);
  }
  if (call.rows == 0) return {};
  return can_write_vectors(call) ? launch_write_vectors(launch, call)
                                 : launch_write_heads(launch, call);
}

Status copy_kv_pages(const Launch& launch, const KvView& first_layer, int layers,
                     const KvCopy* copies, int count) {
  if (Status status = check_type(first_layer.type); !status) return status;
  if (count == 0 || layers == 0) return {};
  return launch_copy_kv_pages(launch, first_layer, layers, copies, count);
}

}  // namespace quire::cuda
