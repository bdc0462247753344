// Prefill attention on a GPU of compute capability 9.0: the Hopper kernels, variants of them, and
// the portable ones, in TFLOP/s by useful operations. Batch x length is 16k tokens and heads x size
// 2048 unless given; pages in random order.
//
//   hopper_attention_bench [variants | short]
//   hopper_attention_bench serve    for hopper_attention_bench.py, which times PyTorch's beside it

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include "attention/hopper/hopper_attention.h"
#include "attention/write_kv.h"
#include "device_arrays.h"
#include "hopper_variants.h"

namespace {

using namespace quire;
using benchmarks::device;
using benchmarks::Memory;
using benchmarks::require;
using benchmarks::Variant;
using cuda::hopper::ForwardKernel;

// Near normal, of variance 1.
__device__ float random_value(std::size_t i, unsigned seed) {
  unsigned x = static_cast<unsigned>(i) * 2654435761u + seed;
  float sum = -2;
  for (int k = 0; k < 4; ++k) {
    x ^= x >> 16;
    x *= 0x7feb352du;
    x ^= x >> 15;
    sum += static_cast<float>(x) * 0x1p-32f;
  }
  return sum * 1.7320508f;
}
__device__ void set_value(__nv_bfloat16& to, float value) {
  to = __float2bfloat16_rn(value);
}
__device__ void set_value(__half& to, float value) {
  to = __float2half_rn(value);
}
// Of scale kCodeScale.
constexpr float kCodeScale = 1.0f / 128;
__device__ void set_value(__nv_fp8_e4m3& to, float value) {
  to = static_cast<__nv_fp8_e4m3>(value / kCodeScale);
}

// Pages of values, and then of scales if there are.
template <class Element>
__global__ void fill_kernel(std::byte* to, int pages, std::size_t page_bytes, std::size_t values,
                            unsigned seed) {
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  const std::size_t first = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const std::size_t scales = (page_bytes - values * sizeof(Element)) / sizeof(float);
  for (std::size_t i = first; i < pages * values; i += step) {
    Element* page = reinterpret_cast<Element*>(to + i / values * page_bytes);
    set_value(page[i % values], random_value(i, seed));
  }
  for (std::size_t i = first; i < pages * scales; i += step) {
    std::byte* page = to + i / scales * page_bytes + values * sizeof(Element);
    reinterpret_cast<float*>(page)[i % scales] = kCodeScale;
  }
}
Memory<std::byte> random_values(KvType type, int pages, std::size_t page_bytes, std::size_t values,
                                unsigned seed) {
  auto memory = device<std::byte>(pages * page_bytes);
  const auto kernel = type == KvType::fp8   ? fill_kernel<__nv_fp8_e4m3>
                      : type == KvType::f16 ? fill_kernel<__half>
                                            : fill_kernel<__nv_bfloat16>;
  kernel<<<2048, 256>>>(memory.get(), pages, page_bytes, values, seed);
  require(cudaGetLastError());
  return memory;
}

struct Shape {
  std::vector<int> before, rows;  // of each sequence: tokens in the cache, tokens of the call
  KvType type = KvType::bf16;
  int heads = 16, kv_heads = 16, head_size = 128, page_size = 64;
  bool causal = true;

  double operations() const {
    double keys = 0;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      keys += static_cast<double>(rows[i]) *
              (causal ? before[i] + 0.5 * (rows[i] + 1) : before[i] + rows[i]);
    }
    return 4.0 * heads * head_size * keys;
  }
};

class Bench {
 public:
  explicit Bench(const Shape& shape) : shape_(shape) {
    cudaDeviceProp properties;
    require(cudaGetDeviceProperties(&properties, 0));
    launch_.multiprocessors = properties.multiProcessorCount;
    require(cudaStreamCreateWithFlags(&launch_.stream, cudaStreamNonBlocking));
    require(cudaEventCreate(&start_));
    require(cudaEventCreate(&stop_));
    std::vector<int> first_row, first_page;
    int pages = 0, total_rows = 0, max_rows = 0, max_keys = 0;
    for (std::size_t i = 0; i < shape.rows.size(); ++i) {
      const int keys = shape.before[i] + shape.rows[i];
      first_row.push_back(total_rows);
      first_page.push_back(pages);
      total_rows += shape.rows[i];
      pages += (keys + shape.page_size - 1) / shape.page_size;
      max_rows = std::max(max_rows, shape.rows[i]);
      max_keys = std::max(max_keys, keys);
    }
    std::vector<int> table(pages);
    std::iota(table.begin(), table.end(), 0);
    std::shuffle(table.begin(), table.end(), std::mt19937(1));
    for (const std::vector<int>& array : {first_row, shape.rows, shape.before, first_page, table}) {
      arrays_.push_back(device(array));
    }
    const std::size_t values = std::size_t{2} * shape.page_size * shape.kv_heads * shape.head_size;
    const std::size_t slab =
        cuda::kv_slab_bytes(shape.type, shape.page_size, shape.kv_heads, shape.head_size);
    cache_ = random_values(shape.type, pages, slab, values, 2);
    const std::size_t row = static_cast<std::size_t>(shape.heads) * shape.head_size;
    query_ = random_values(KvType::bf16, total_rows, row * 2, row, 1);
    output_ =
        device<__nv_bfloat16>(static_cast<std::size_t>(total_rows) * shape.heads * shape.head_size);
    const int count = static_cast<int>(shape.rows.size());
    call_.query = reinterpret_cast<const __nv_bfloat16*>(query_.get());
    call_.output = output_.get();
    call_.kv = {cache_.get(),   slab,           0, shape.type, shape.page_size,
                shape.kv_heads, shape.head_size};
    call_.sequences = {count,
                       count,
                       arrays_[0].get(),
                       arrays_[1].get(),
                       arrays_[2].get(),
                       arrays_[3].get(),
                       arrays_[4].get(),
                       nullptr,
                       nullptr,
                       total_rows,
                       max_rows,
                       max_keys};
    call_.heads = shape.heads;
    call_.scale = 1 / std::sqrt(static_cast<float>(shape.head_size));
    workspace_ = device<std::byte>(
        std::max(cuda::attention_workspace_bytes(total_rows, count, shape.heads, shape.head_size,
                                                 max_keys, launch_.multiprocessors),
                 cuda::hopper_workspace_bytes(total_rows, count, shape.kv_heads)));
    call_.workspace = workspace_.get();
    options_.causal = shape.causal;
    tiles_ = device<std::byte>(cuda::hopper_workspace_bytes(total_rows, count, shape.kv_heads));
    options_.tiles = tiles_.get();
    variant_tiles_ =
        device<std::byte>(cuda::hopper_workspace_bytes(total_rows, count, shape.kv_heads));
    require(cuda::list_hopper_tiles(launch_, call_, options_));
    require(cudaDeviceSynchronize());
  }
  ~Bench() {
    cudaEventDestroy(start_);
    cudaEventDestroy(stop_);
    cudaStreamDestroy(launch_.stream);
  }
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  // Milliseconds of a call, over `calls` of them. The list of tiles is made before, as for the
  // layers of a pass.
  double hopper(int calls) {
    return time(calls, [&] { require(cuda::hopper_attention(launch_, call_, options_)); });
  }
  double listing(int calls) {
    return time(calls, [&] { require(cuda::list_hopper_tiles(launch_, call_, options_)); });
  }
  double variant(int calls, const ForwardKernel& kernel) {
    cuda::HopperOptions options = options_;
    options.tiles = variant_tiles_.get();
    require(cuda::hopper::list_forward_tiles(launch_, call_, options, kernel));
    return time(calls,
                [&] { require(cuda::hopper::launch_forward(launch_, call_, options, kernel)); });
  }
  // What the last call wrote, or the start of it.
  std::vector<float> output() {
    std::vector<__nv_bfloat16> values(std::size_t{1} << 20);
    require(cudaMemcpy(values.data(), output_.get(), values.size() * sizeof(__nv_bfloat16),
                       cudaMemcpyDeviceToHost));
    return std::vector<float>(values.begin(), values.end());
  }
  double portable(int calls) {
    return time(calls, [&] { require(cuda::paged_attention(launch_, call_)); });
  }
  const Shape& shape() const { return shape_; }

 private:
  template <class Run>
  double time(int calls, Run run) {
    require(cudaEventRecord(start_, launch_.stream));
    for (int i = 0; i < calls; ++i) run();
    require(cudaEventRecord(stop_, launch_.stream));
    require(cudaEventSynchronize(stop_));
    float milliseconds = 0;
    require(cudaEventElapsedTime(&milliseconds, start_, stop_));
    return milliseconds / calls;
  }

  Shape shape_;
  cuda::Launch launch_;
  cuda::PagedAttentionCall call_;
  cuda::HopperOptions options_;
  cudaEvent_t start_ = nullptr, stop_ = nullptr;
  std::vector<Memory<int>> arrays_;
  Memory<__nv_bfloat16> output_;
  Memory<std::byte> cache_, query_, workspace_, tiles_, variant_tiles_;
};

constexpr int kTokens = 16384;

Shape even(int length, int head_size, int page_size, bool causal, int kv_heads = 0, int heads = 0) {
  Shape shape;
  shape.rows.assign(std::max(1, kTokens / length), length);
  shape.before.assign(shape.rows.size(), 0);
  shape.head_size = head_size;
  shape.heads = heads > 0 ? heads : 2048 / head_size;
  shape.kv_heads = kv_heads > 0 ? kv_heads : shape.heads;
  shape.page_size = page_size;
  shape.causal = causal;
  return shape;
}

// Norm of the difference over the norm.
double difference(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0, norm = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    sum += (a[i] - b[i]) * (a[i] - b[i]);
    norm += a[i] * a[i];
  }
  return std::sqrt(sum / norm);
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

std::string describe(const Shape& shape) {
  char text[128];
  const char* type = shape.type == KvType::fp8   ? "fp8 "
                     : shape.type == KvType::f16 ? "f16 "
                                                 : "bf16";
  std::snprintf(text, sizeof text, "%2zu x %5d %2d/%2d d%3d %s page %2d %s", shape.rows.size(),
                shape.rows[0], shape.heads, shape.kv_heads, shape.head_size, type, shape.page_size,
                shape.causal ? "causal" : "full  ");
  return text;
}

// Those of a head size and type.
std::vector<const Variant*> variants_of(const Shape& shape) {
  std::vector<const Variant*> found;
  for (const Variant& variant : benchmarks::hopper_variants()) {
    if (variant.head_size == shape.head_size && variant.type == shape.type) {
      found.push_back(&variant);
    }
  }
  return found;
}

// Interleaved: every round times each once.
void compare(const Shape& shape, bool variants, int rounds) {
  Bench bench(shape);
  std::vector<const Variant*> others;
  if (variants) others = variants_of(shape);
  const bool portable = shape.causal;
  std::vector<std::vector<double>> times(others.size() + 2);
  bench.hopper(1);
  const std::vector<float> expected = bench.output();
  for (const Variant* other : others) {
    bench.variant(1, other->kernel());
    const double error = difference(expected, bench.output());
    // In fp8 where weights are rounded depends on the order of blocks.
    if (!(error < (shape.type == KvType::fp8 ? 5e-2 : 1e-2)))
      std::printf("%s is wrong by %g\n", other->name, error);
  }
  for (int round = 0; round <= rounds; ++round) {
    std::vector<double> now(times.size());
    now[0] = bench.hopper(4);
    if (portable) now[1] = bench.portable(2);
    for (std::size_t i = 0; i < others.size(); ++i) {
      now[i + 2] = bench.variant(4, others[i]->kernel());
    }
    for (std::size_t i = 0; round > 0 && i < now.size(); ++i) times[i].push_back(now[i]);
  }
  const double operations = shape.operations() * 1e-9;
  std::printf("%s: %8.3f ms %6.1f TFLOP/s", describe(shape).c_str(), median(times[0]),
              operations / median(times[0]));
  if (portable) std::printf(", portable %6.1f", operations / median(times[1]));
  for (std::size_t i = 0; i < others.size(); ++i) {
    std::printf(", %s %6.1f", others[i]->name, operations / median(times[i + 2]));
  }
  std::printf(", list of tiles %.1f us\n", 1e3 * bench.listing(10));
  std::fflush(stdout);
}

// Pages of 16 beside pages of 64 tokens.
void compare_pages(int length, int head_size) {
  Bench large(even(length, head_size, 64, true)), small(even(length, head_size, 16, true));
  std::vector<double> ratios;
  for (int round = 0; round < 7; ++round) {
    const double time = large.hopper(6);
    ratios.push_back(time / small.hopper(6));
  }
  std::printf("%s: pages of 16 at %.3f of that\n", describe(large.shape()).c_str(), median(ratios));
  std::fflush(stdout);
}

KvType type_named(const std::string& name) {
  return name == "fp8" ? KvType::fp8 : name == "f16" ? KvType::f16 : KvType::bf16;
}

// Answers lines of standard input: `open length size heads kv_heads page causal type` with the
// operations of a call, `run calls` with the milliseconds of one, `variants` with their names, each
// followed by a semicolon, `variant index calls` with the milliseconds of a call of one.
int serve() {
  std::unique_ptr<Bench> bench;
  std::string command;
  while (std::cin >> command) {
    if (command == "open") {
      int length = 0, head_size = 0, heads = 0, kv_heads = 0, page_size = 0, causal = 0;
      std::string type;
      std::cin >> length >> head_size >> heads >> kv_heads >> page_size >> causal >> type;
      bench.reset();
      Shape shape = even(length, head_size, page_size, causal != 0, kv_heads, heads);
      shape.type = type_named(type);
      bench = std::make_unique<Bench>(shape);
      std::printf("%.0f\n", bench->shape().operations());
    } else if (command == "run" && bench != nullptr) {
      int calls = 1;
      std::cin >> calls;
      std::printf("%.6f\n", bench->hopper(calls));
    } else if (command == "variants" && bench != nullptr) {
      for (const Variant* variant : variants_of(bench->shape())) std::printf("%s;", variant->name);
      std::printf("\n");
    } else if (command == "variant" && bench != nullptr) {
      std::size_t index = 0;
      int calls = 1;
      std::cin >> index >> calls;
      std::printf("%.6f\n", bench->variant(calls, variants_of(bench->shape()).at(index)->kernel()));
    } else {
      return 1;
    }
    std::fflush(stdout);
  }
  return 0;
}

struct Row {
  KvType type;
  int head_size;
};

// The types beside each other, and the variants of fp8.
int compare_types() {
  const Row rows[] = {{KvType::bf16, 128}, {KvType::f16, 128}, {KvType::fp8, 128},
                      {KvType::bf16, 64},  {KvType::fp8, 64},  {KvType::bf16, 96},
                      {KvType::bf16, 192}};
  for (const int length : {4096, 16384}) {
    for (const bool causal : {true, false}) {
      for (const Row& row : rows) {
        Shape shape = even(length, row.head_size, 64, causal);
        shape.type = row.type;
        compare(shape, row.type == KvType::fp8, 4);
      }
    }
  }
  return 0;
}

}  // namespace

int main(int count, char** arguments) {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    std::printf("no CUDA device: nothing was measured\n");
    return 0;
  }
  const std::string what = count > 1 ? arguments[1] : "";
  if (what == "serve") return serve();
  if (what == "short") return compare_types();
  const bool variants = what == "variants";
  const Row rows[] = {{KvType::bf16, 128}, {KvType::bf16, 64},  {KvType::bf16, 256},
                      {KvType::bf16, 96},  {KvType::bf16, 192}, {KvType::f16, 128},
                      {KvType::fp8, 128},  {KvType::fp8, 64}};
  for (const Row& row : rows) {
    for (const bool causal : {true, false}) {
      for (const int length : {1024, 2048, 4096, 8192, 16384}) {
        Shape shape = even(length, row.head_size, 64, causal);
        shape.type = row.type;
        compare(shape, variants, variants ? 3 : 5);
      }
    }
  }
  for (const int head_size : {128, 64, 256}) {
    for (const int length : {1024, 4096, 16384}) compare_pages(length, head_size);
  }
  compare(even(8192, 128, 64, true, 8, 64), false, 5);
  Shape ragged = even(16384, 128, 64, true, 8, 32);
  ragged.rows = {128, 16384, 512, 512, 2000, 512, 700, 4096, 512};
  ragged.before = {0, 0, 8192, 4096, 0, 1000, 0, 0, 0};
  compare(ragged, false, 5);
  return 0;
}
