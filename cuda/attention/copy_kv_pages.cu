#include "attention/page_kernels.h"

namespace quire::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kParts = 4;  // thread blocks of a page's layer

// A layer's slab is runs of page_size rows: of keys and values, then of scales. Of each run the
// first `tokens` rows are copied; of values in fp8, the boxes that hold them.
__device__ void copy_runs(std::byte* to, const std::byte* from, int runs, int run_bytes,
                          int wanted_bytes) {
  const int words = wanted_bytes / 4;
  for (int i = blockIdx.z * kThreads + threadIdx.x; i < runs * words; i += kParts * kThreads) {
    const std::size_t place = static_cast<std::size_t>(i / words) * run_bytes + i % words * 4;
    *reinterpret_cast<unsigned*>(to + place) = *reinterpret_cast<const unsigned*>(from + place);
  }
}

__global__ void __launch_bounds__(kThreads)
    copy_kernel(KvView first_layer, std::size_t slab_bytes, const KvCopy* copies) {
  const KvCopy copy = copies[blockIdx.x];
  if (copy.tokens <= 0) return;
  const std::size_t layer = first_layer.layer_offset + blockIdx.y * slab_bytes;
  const std::byte* from =
      first_layer.base + static_cast<std::size_t>(copy.from) * first_layer.page_bytes + layer;
  std::byte* to =
      first_layer.base + static_cast<std::size_t>(copy.to) * first_layer.page_bytes + layer;
  const int row_bytes = first_layer.head_size * kv_element_bytes(first_layer.type);
  const int runs = 2 * first_layer.kv_heads;
  const int page = first_layer.page_size;
  if (first_layer.type == KvType::fp8) {
    const std::size_t values = static_cast<std::size_t>(first_layer.kv_heads) * page * row_bytes;
    const int boxes = (copy.tokens + kFp8Box - 1) / kFp8Box * kFp8Box;
    copy_runs(to, from, runs / 2, page * row_bytes, copy.tokens * row_bytes);
    copy_runs(to + values, from + values, runs / 2, page * row_bytes, boxes * row_bytes);
  } else {
    copy_runs(to, from, runs, page * row_bytes, copy.tokens * row_bytes);
  }
  if (kv_scaled(first_layer.type)) {
    const std::size_t scales = static_cast<std::size_t>(runs) * page * row_bytes;
    copy_runs(to + scales, from + scales, runs, page * 4, copy.tokens * 4);
  }
}

}  // namespace

Status launch_copy_kv_pages(const Launch& launch, const KvView& first_layer, int layers,
                            const KvCopy* copies, int count) {
  const std::size_t slab = kv_slab_bytes(first_layer.type, first_layer.page_size,
                                         first_layer.kv_heads, first_layer.head_size);
  copy_kernel<<<dim3(count, layers, kParts), kThreads, 0, launch.stream>>>(first_layer, slab,
                                                                           copies);
  return status_of(cudaGetLastError(), "copying KV pages");
}

}  // namespace quire::cuda
