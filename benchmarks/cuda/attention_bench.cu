// Paged attention on the first GPU: prefill in TFLOP/s, decode as a share of the read bandwidth
// that the same run measures. Times are medians over replays of a CUDA graph whose launches rotate
// over copies of the keys and values, so that the second-level cache does not serve them.
//
//   attention_bench [prefill|decode|portable-decode|cascade]
//
// cascade: decode of sequences that share a prefix, each reading it for itself and all at once.
// Prefill is by the portable kernels; decode by those for the GPU at hand, unless it is portable.

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include "attention/paged_attention.h"
#include "attention/write_kv.h"
#include "device_arrays.h"

namespace {

using namespace quire;
using benchmarks::device;
using benchmarks::Memory;
using benchmarks::require;

__global__ void fill_kernel(__nv_bfloat16* to, std::size_t count, unsigned seed) {
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count;
       i += step) {
    unsigned x = static_cast<unsigned>(i) * 2654435761u + seed;
    float sum = -2;
    for (int k = 0; k < 4; ++k) {
      x ^= x >> 16;
      x *= 0x7feb352du;
      x ^= x >> 15;
      sum += static_cast<float>(x) * 0x1p-32f;
    }
    to[i] = __float2bfloat16_rn(sum * 1.7f);
  }
}

Memory<__nv_bfloat16> random_values(std::size_t count, unsigned seed) {
  auto memory = device<__nv_bfloat16>(count);
  fill_kernel<<<2048, 256>>>(memory.get(), count, seed);
  require(cudaGetLastError());
  return memory;
}

__global__ void read_kernel(const uint4* from, std::size_t count, unsigned* to) {
  unsigned sum = 0;
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x * 4;
  for (std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x * 4 + threadIdx.x;
       i + 3 * blockDim.x < count; i += step) {
    for (int k = 0; k < 4; ++k) {
      const uint4 x = __ldcs(from + i + k * blockDim.x);
      sum ^= x.x ^ x.y ^ x.z ^ x.w;
    }
  }
  if (sum == 0x12345678u) *to = sum;
}

// Median seconds of one launch in a graph of `launches`.
double seconds(cudaStream_t stream, int launches, const std::function<void(int)>& launch,
               int repeats = 9) {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  launch(0);  // loads the kernels
  require(cudaStreamSynchronize(stream));
  require(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  for (int i = 0; i < launches; ++i) launch(i);
  require(cudaStreamEndCapture(stream, &graph));
  require(cudaGraphInstantiate(&executable, graph, 0));
  cudaEvent_t start, stop;
  require(cudaEventCreate(&start));
  require(cudaEventCreate(&stop));
  std::vector<float> times;
  for (int i = 0; i < repeats + 1; ++i) {
    require(cudaEventRecord(start, stream));
    require(cudaGraphLaunch(executable, stream));
    require(cudaEventRecord(stop, stream));
    require(cudaEventSynchronize(stop));
    float milliseconds = 0;
    require(cudaEventElapsedTime(&milliseconds, start, stop));
    if (i > 0) times.push_back(milliseconds);
  }
  cudaEventDestroy(start);
  cudaEventDestroy(stop);
  cudaGraphExecDestroy(executable);
  cudaGraphDestroy(graph);
  std::sort(times.begin(), times.end());
  return times[times.size() / 2] * 1e-3 / launches;
}

const char* const kTypeNames[] = {"f32", "f16", "bf16", "int8", "fp8"};

struct Shape {
  KvType type = KvType::bf16;
  int sequences = 1, before = 0, rows = 1;  // tokens in the cache before the call's rows
  int heads = 32, kv_heads = 8, head_size = 128, page_size = 64;
  int layers = 0;  // share pages, as in an engine whose pages hold all layers; 0: apart
  int prefix = 0;  // tokens whose pages are the same for all sequences; whole pages
};

// Everything a call needs, with `copies` of the cache.
class Bench {
 public:
  Bench(const cuda::Launch& launch, const Shape& shape, int copies)
      : launch_(launch), shape_(shape) {
    const int keys = shape.before + shape.rows;
    const int pages = (keys + shape.page_size - 1) / shape.page_size;
    const int common = shape.prefix / shape.page_size;
    std::vector<int> table(static_cast<std::size_t>(pages - common) * shape.sequences + common);
    std::iota(table.begin(), table.end(), 0);
    std::shuffle(table.begin(), table.end(), std::mt19937(1));
    const std::size_t page_count = table.size();
    const std::vector<int> shared(table.begin(), table.begin() + common);
    for (int i = 1; i < shape.sequences; ++i) {
      table.insert(table.begin() + static_cast<std::ptrdiff_t>(i) * pages, shared.begin(),
                   shared.end());
    }
    std::vector<int> first_row, rows, first_position, first_page;
    for (int i = 0; i < shape.sequences; ++i) {
      first_row.push_back(i * shape.rows);
      rows.push_back(shape.rows);
      first_position.push_back(shape.before);
      first_page.push_back(i * pages);
    }
    first_row_ = device(first_row);
    rows_ = device(rows);
    first_position_ = device(first_position);
    first_page_ = device(first_page);
    pages_ = device(table);
    const std::size_t slab = slab_ =
        cuda::kv_slab_bytes(shape.type, shape.page_size, shape.kv_heads, shape.head_size);
    const std::size_t values =
        static_cast<std::size_t>(shape.sequences) * shape.rows * shape.heads * shape.head_size;
    query_ = random_values(values, 1);
    output_ = device<__nv_bfloat16>(values);
    call_.query = query_.get();
    call_.output = output_.get();
    call_.kv = {nullptr, slab, 0, shape.type, shape.page_size, shape.kv_heads, shape.head_size};
    call_.sequences = {shape.sequences,
                       shape.sequences,
                       first_row_.get(),
                       rows_.get(),
                       first_position_.get(),
                       first_page_.get(),
                       pages_.get(),
                       nullptr,
                       nullptr,
                       shape.sequences * shape.rows,
                       shape.rows,
                       keys};
    call_.heads = shape.heads;
    call_.scale = 1 / std::sqrt(static_cast<float>(shape.head_size));
    const auto layers = static_cast<std::size_t>(std::max(shape.layers, 1));
    call_.kv.page_bytes = slab * layers;
    for (int i = 0; i < (shape.layers > 0 ? 1 : copies); ++i) {
      caches_.push_back(random_values(slab * layers * page_count / 2, 2 + i));
    }
    workspace_ = device<std::byte>(
        cuda::attention_workspace_bytes(call_.sequences.total_rows, shape.sequences, shape.heads,
                                        shape.head_size, keys, launch.multiprocessors));
    plan_ = device<std::byte>(cuda::attention_plan_bytes(
        call_.sequences.total_rows, shape.sequences, shape.heads, keys, launch.multiprocessors));
    call_.workspace = workspace_.get();
    call_.plan = plan_.get();
    require(cuda::plan_attention(launch, call_));
  }

  double run(int launches) {
    return seconds(launch_.stream, launches, [&](int i) {
      call_.kv.base = reinterpret_cast<std::byte*>(caches_[i % caches_.size()].get());
      if (shape_.layers > 0) call_.kv.layer_offset = i % shape_.layers * slab_;
      require(cuda::paged_attention(launch_, call_));
    });
  }
  void set_deterministic() { launch_.deterministic = true; }
  // From here on the prefix is read once for all sequences, or by each.
  void read_prefix(bool once) {
    prefix_ = device(std::vector<int>{0, shape_.sequences, shape_.prefix});
    call_.sequences.prefix =
        once ? reinterpret_cast<const cuda::SharedPrefix*>(prefix_.get()) : nullptr;
    call_.sequences.long_prefix = once;
    require(cuda::plan_attention(launch_, call_));
  }
  // As in a pass of an engine, whose layers share a plan made before.
  void set_plan_is_old() { call_.plan_is_old = true; }
  double planning() {
    return seconds(launch_.stream, 20, [&](int) { require(cuda::plan_attention(launch_, call_)); });
  }

 private:
  cuda::Launch launch_;
  Shape shape_;
  std::size_t slab_ = 0;
  cuda::PagedAttentionCall call_;
  Memory<int> first_row_, rows_, first_position_, first_page_, pages_, prefix_;
  Memory<__nv_bfloat16> query_, output_;
  std::vector<Memory<__nv_bfloat16>> caches_;
  Memory<std::byte> workspace_, plan_;
};

void prefill(const cuda::Launch& launch) {
  std::printf("prefill, causal, bf16: batch x tokens, heads/kv heads, d, page: ms, TFLOP/s\n");
  struct Row {
    int sequences, before, rows, heads, kv_heads, head_size, page_size;
  };
  const Row table[] = {
      {4, 0, 4096, 16, 16, 128, 64},    {2, 0, 8192, 16, 16, 128, 64},
      {1, 0, 16384, 16, 16, 128, 64},   {4, 0, 4096, 32, 32, 64, 64},
      {2, 0, 8192, 32, 32, 64, 64},     {1, 0, 16384, 32, 32, 64, 64},
      {1, 0, 2048, 32, 8, 128, 64},     {1, 0, 8192, 32, 8, 128, 64},
      {1, 0, 8192, 32, 8, 128, 16},     {1, 5000, 64, 32, 8, 128, 64},
      {1, 30720, 2048, 32, 8, 128, 64}, {1, 0, 8192, 32, 8, 96, 64},
      {1, 0, 8192, 32, 8, 256, 64},
  };
  for (const Row& row : table) {
    Shape shape;
    shape.sequences = row.sequences;
    shape.before = row.before;
    shape.rows = row.rows;
    shape.heads = row.heads;
    shape.kv_heads = row.kv_heads;
    shape.head_size = row.head_size;
    shape.page_size = row.page_size;
    Bench bench(launch, shape, 1);
    const double time = bench.run(3);
    bench.set_deterministic();
    const double steady = bench.run(3);
    const double keys = row.before + 0.5 * (row.rows + 1);
    const double operations =
        4.0 * row.sequences * row.heads * static_cast<double>(row.rows) * keys * row.head_size;
    std::printf(
        "%3d x %5d+%5d  %2d/%2d d%3d page %2d: %8.3f ms %6.1f TFLOP/s, deterministic %6.1f\n",
        row.sequences, row.before, row.rows, row.heads, row.kv_heads, row.head_size, row.page_size,
        time * 1e3, operations / time * 1e-12, operations / steady * 1e-12);
    std::fflush(stdout);
  }
}

double read_bandwidth(cudaStream_t stream, int multiprocessors) {
  const std::size_t bytes = std::size_t{4} << 30;
  auto memory = random_values(bytes / 2, 3);
  auto result = device<unsigned>(1);
  const double time = seconds(stream, 2, [&](int) {
    read_kernel<<<multiprocessors * 8, 256, 0, stream>>>(
        reinterpret_cast<const uint4*>(memory.get()), bytes / 16, result.get());
  });
  return static_cast<double>(bytes) / time;
}

void decode(const cuda::Launch& launch) {
  const double bandwidth = read_bandwidth(launch.stream, launch.multiprocessors);
  std::printf("read bandwidth %.3f TB/s\n", bandwidth * 1e-12);
  std::printf("decode: batch x keys, heads/kv heads, d, page, KV: us, TB/s, share of bandwidth\n");
  struct Row {
    int sequences, keys, heads, kv_heads, head_size, page_size;
    KvType type;
    int layers = 0;
  };
  const Row table[] = {
      {1, 32768, 32, 8, 128, 16, KvType::bf16},     {1, 32768, 32, 8, 128, 64, KvType::bf16},
      {8, 8192, 32, 8, 128, 16, KvType::bf16},      {8, 8192, 32, 8, 128, 64, KvType::bf16},
      {32, 2048, 32, 8, 128, 16, KvType::bf16},     {32, 2048, 32, 8, 128, 64, KvType::bf16},
      {256, 640, 32, 8, 128, 16, KvType::bf16},     {256, 640, 32, 8, 128, 64, KvType::bf16},
      {1, 640, 32, 8, 128, 64, KvType::bf16},       {8, 640, 32, 8, 128, 64, KvType::bf16},
      {64, 640, 32, 8, 128, 64, KvType::bf16},      {512, 640, 32, 8, 128, 64, KvType::bf16},
      {1, 640, 14, 2, 64, 64, KvType::bf16},        {256, 640, 14, 2, 64, 64, KvType::bf16},
      {32, 2048, 32, 8, 128, 64, KvType::int8},     {256, 640, 32, 8, 128, 64, KvType::int8},
      {32, 2048, 32, 8, 128, 64, KvType::fp8},      {256, 640, 32, 8, 128, 64, KvType::fp8},
      {32, 2048, 16, 4, 256, 64, KvType::bf16},     {32, 2048, 32, 8, 128, 64, KvType::f16},
      {64, 640, 32, 8, 128, 64, KvType::bf16, 32},  {256, 640, 32, 8, 128, 64, KvType::bf16, 32},
      {512, 640, 32, 8, 128, 64, KvType::bf16, 32}, {512, 640, 32, 8, 128, 16, KvType::bf16, 32},
      {64, 576, 32, 8, 128, 64, KvType::bf16},      {256, 576, 32, 8, 128, 64, KvType::bf16},
      {512, 576, 32, 8, 128, 64, KvType::bf16},     {512, 640, 32, 8, 128, 16, KvType::bf16},
  };
  for (const Row& row : table) {
    Shape shape;
    shape.type = row.type;
    shape.sequences = row.sequences;
    shape.before = row.keys - 1;
    shape.heads = row.heads;
    shape.kv_heads = row.kv_heads;
    shape.head_size = row.head_size;
    shape.page_size = row.page_size;
    shape.layers = row.layers;
    const double bytes =
        static_cast<double>(row.sequences) *
        (static_cast<double>(row.keys) *
             static_cast<double>(cuda::kv_slab_bytes(row.type, 1, row.kv_heads, row.head_size)) +
         4.0 * row.heads * row.head_size);
    const int copies = row.layers > 0 ? row.layers : std::max(2, static_cast<int>(1e9 / bytes));
    Bench bench(launch, shape, std::min(copies, 64));
    bench.set_plan_is_old();
    const double time = bench.run(std::min(copies, 64));
    std::printf(
        "%3d x %5d  %2d/%2d d%3d page %2d %-4s%s: %8.2f us %6.3f TB/s %5.3f  (plan %.2f us)\n",
        row.sequences, row.keys, row.heads, row.kv_heads, row.head_size, row.page_size,
        kTypeNames[static_cast<int>(row.type)], row.layers > 0 ? " of 32 layers" : "", time * 1e6,
        bytes / time * 1e-12, bytes / time / bandwidth, bench.planning() * 1e6);
    std::fflush(stdout);
  }
}

void cascade(const cuda::Launch& launch) {
  std::printf(
      "decode on a shared prefix: sequences x (prefix + own), heads/kv heads, d, KV: us each / "
      "once, ratio, plans of either\n");
  struct Row {
    int sequences, prefix, own, heads = 32, kv_heads = 8, head_size = 128;
    KvType type = KvType::bf16;
  };
  std::vector<Row> table;
  for (const int sequences : {64, 256}) {
    for (const int prefix : {2048, 8192}) {
      for (const int own : {128, 512}) table.push_back({sequences, prefix, own});
    }
  }
  for (const int sequences : {2, 4, 8, 16, 32}) {
    for (const int prefix : {512, 1024, 2048, 8192}) table.push_back({sequences, prefix, 256});
  }
  table.push_back({64, 512, 256});
  table.push_back({256, 512, 256});
  table.push_back({512, 2048, 256});
  for (const KvType type : {KvType::f16, KvType::int8, KvType::fp8}) {
    table.push_back({64, 2048, 256, 32, 8, 128, type});
  }
  for (const int sequences : {8, 16, 64, 256}) {
    table.push_back({sequences, 2048, 256, 14, 2, 64});
    table.push_back({sequences, 2048, 256, 32, 32, 128});
  }
  table.push_back({64, 2048, 256, 16, 4, 256});
  for (const Row& row : table) {
    Shape shape;
    shape.type = row.type;
    shape.sequences = row.sequences;
    shape.prefix = row.prefix;
    shape.before = row.prefix + row.own - 1;
    shape.heads = row.heads;
    shape.kv_heads = row.kv_heads;
    shape.head_size = row.head_size;
    const double key_bytes =
        static_cast<double>(cuda::kv_slab_bytes(row.type, 1, row.kv_heads, row.head_size));
    const double bytes = key_bytes * (row.prefix + static_cast<double>(row.sequences) * row.own);
    const int copies = std::clamp(static_cast<int>(1e9 / bytes), 3, 24);
    Bench bench(launch, shape, copies);
    bench.set_plan_is_old();
    double times[2] = {1, 1}, plans[2];
    for (int round = 0; round < 2; ++round) {
      for (const bool once : {false, true}) {
        bench.read_prefix(once);
        times[once] = std::min(times[once], bench.run(copies));
        plans[once] = bench.planning();
      }
    }
    std::printf("%3d x (%4d + %3d)  %2d/%2d d%3d %-4s: %8.2f / %7.2f us  %5.2f  (%.2f / %.2f us)\n",
                row.sequences, row.prefix, row.own, row.heads, row.kv_heads, row.head_size,
                kTypeNames[static_cast<int>(row.type)], times[0] * 1e6, times[1] * 1e6,
                times[0] / times[1], plans[0] * 1e6, plans[1] * 1e6);
    std::fflush(stdout);
  }
}

}  // namespace

int main(int count, char** arguments) {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    std::printf("no CUDA device: nothing was measured\n");
    return 0;
  }
  cudaDeviceProp properties;
  require(cudaGetDeviceProperties(&properties, 0));
  std::printf("%s, %d multiprocessors\n", properties.name, properties.multiProcessorCount);
  cuda::Launch launch;
  launch.multiprocessors = properties.multiProcessorCount;
  require(cudaStreamCreateWithFlags(&launch.stream, cudaStreamNonBlocking));
  const char* what = count > 1 ? arguments[1] : "";
  const int capability = properties.major * 10 + properties.minor;
  if (std::strcmp(what, "cascade") == 0) {
    launch.compute_capability = capability;
    cascade(launch);
    return 0;
  }
  const bool portable = std::strcmp(what, "portable-decode") == 0;
  if (std::strcmp(what, "decode") != 0 && !portable) prefill(launch);
  if (std::strcmp(what, "prefill") == 0) return 0;
  if (!portable) launch.compute_capability = capability;
  decode(launch);
  return 0;
}
