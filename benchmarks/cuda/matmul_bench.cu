// Matrix products on a GPU: the share of the read bandwidth of a whole model's products with few
// tokens, and the rate of products with many, each beside the card's own in the same run.
//   matmul_bench [--tokens 1,8,64] [--types bf16,q8_0,q4_k,q6_k] [--many 512,2048]
//   [--deterministic] [--own]

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "matmul/library_products.h"
#include "matmul/product.h"
#include "tensor/blocks.h"

namespace {

using namespace quire;

void check(cudaError_t code, const char* what) {
  if (code == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(code));
  std::exit(1);
}
void check(const Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.message().c_str());
  std::exit(1);
}

template <class T>
T* device_memory(std::size_t count) {
  void* memory = nullptr;
  check(cudaMalloc(&memory, count * sizeof(T)), "cudaMalloc");
  check(cudaMemset(memory, 0, count * sizeof(T)), "cudaMemset");
  return static_cast<T*>(memory);
}

__global__ void read_all(const uint4* from, std::size_t count, std::uint32_t* out) {
  const std::size_t step = std::size_t{gridDim.x} * blockDim.x;
  std::uint32_t sum = 0;
  std::size_t i = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x;
  for (; i + 7 * step < count; i += 8 * step) {
    uint4 v[8];
#pragma unroll
    for (int k = 0; k < 8; ++k) v[k] = __ldcs(from + i + k * step);
#pragma unroll
    for (int k = 0; k < 8; ++k) sum += v[k].x ^ v[k].y ^ v[k].z ^ v[k].w;
  }
  if (sum == 0x12345678) *out = sum;
}

class Timer {
 public:
  explicit Timer(cudaStream_t stream) : stream_(stream) {
    check(cudaEventCreate(&start_), "event");
    check(cudaEventCreate(&stop_), "event");
  }
  // Median milliseconds of `repeats` runs.
  template <class Work>
  float median(int repeats, Work&& work) {
    std::vector<float> times;
    for (int i = 0; i < repeats + 1; ++i) {
      check(cudaEventRecord(start_, stream_), "record");
      work();
      check(cudaEventRecord(stop_, stream_), "record");
      check(cudaEventSynchronize(stop_), "timed work");
      float time = 0;
      check(cudaEventElapsedTime(&time, start_, stop_), "elapsed");
      if (i > 0) times.push_back(time);
    }
    std::sort(times.begin(), times.end());
    return times[times.size() / 2];
  }

 private:
  cudaStream_t stream_;
  cudaEvent_t start_, stop_;
};

// Stored rows of random weights: whole blocks with scales of a usual size, repeated.
class RandomRows {
 public:
  RandomRows(DType type, std::size_t bytes) : bytes_(bytes) {
    const DTypeInfo& entry = info(type);
    std::mt19937_64 random(1);
    std::normal_distribution<float> normal(0, 0.02f);
    const std::size_t blocks = (std::size_t{8} << 20) / entry.block_bytes;
    std::vector<std::byte> host(blocks * entry.block_bytes);
    for (std::size_t i = 0; i < blocks; ++i) {
      std::byte* block = host.data() + i * entry.block_bytes;
      if (type == DType::bf16) {
        const std::uint16_t bits = float_to_bfloat16(normal(random));
        std::memcpy(block, &bits, 2);
        continue;
      }
      for (int b = 0; b < entry.block_bytes; ++b) block[b] = static_cast<std::byte>(random());
      const std::uint16_t scale = float_to_half(0.001f);
      if (type == DType::q6_k) {
        std::memcpy(block + 208, &scale, 2);
      } else {
        std::memcpy(block, &scale, 2);
        if (type == DType::q4_k) std::memcpy(block + 2, &scale, 2);
      }
    }
    rows_ = device_memory<std::byte>(bytes);
    for (std::size_t at = 0; at < bytes; at += host.size()) {
      check(cudaMemcpy(rows_ + at, host.data(), std::min(host.size(), bytes - at),
                       cudaMemcpyHostToDevice),
            "upload");
    }
  }
  ~RandomRows() { cudaFree(rows_); }
  RandomRows(const RandomRows&) = delete;
  RandomRows& operator=(const RandomRows&) = delete;

  std::unique_ptr<PackedMatrix> pack(const cuda::Launch& launch, DType type, std::int64_t rows,
                                     std::int64_t columns) const {
    TensorView view;
    view.name = "weights";
    view.type = type;
    view.shape = {rows, columns, 0, 0};
    view.dimensions = 2;
    view.bytes = {rows_, *row_bytes(type, columns) * static_cast<std::size_t>(rows)};
    if (view.bytes.size() > bytes_) std::exit(1);
    auto packed = cuda::pack_device_rows(launch, rows_, view, {});
    check(packed.status());
    check(cudaStreamSynchronize(launch.stream), "packing");
    return *std::move(packed);
  }

 private:
  std::byte* rows_;
  std::size_t bytes_;
};

// The products of Llama-3.1-8B.
constexpr std::int64_t kHidden = 4096, kInner = 14336, kKeys = 1024, kVocabulary = 128256;
constexpr int kDistinct = 4, kLayers = 32;

struct Layer {
  std::unique_ptr<PackedMatrix> q, k, v, o, gate, up, down;
};

struct Buffers {
  __nv_bfloat16 *hidden, *inner, *out;
  float *residual, *logits, *qkv;
  std::byte* workspace;
  std::size_t workspace_bytes;
  cuda::LibraryProducts* library;

  Buffers(int rows, cuda::LibraryProducts* products) : library(products) {
    const auto n = static_cast<std::size_t>(rows);
    std::vector<std::uint16_t> random_input(n * kInner);
    std::mt19937_64 random(2);
    std::normal_distribution<float> normal(0, 1);
    std::vector<std::uint16_t> some(65521);
    for (auto& value : some) value = float_to_bfloat16(normal(random));
    for (std::size_t i = 0; i < random_input.size(); ++i) random_input[i] = some[i % some.size()];
    hidden = device_memory<__nv_bfloat16>(n * kHidden);
    inner = device_memory<__nv_bfloat16>(n * kInner);
    check(cudaMemcpy(hidden, random_input.data(), n * kHidden * 2, cudaMemcpyHostToDevice), "copy");
    check(cudaMemcpy(inner, random_input.data(), n * kInner * 2, cudaMemcpyHostToDevice), "copy");
    out = device_memory<__nv_bfloat16>(n * kInner);
    residual = device_memory<float>(n * kHidden);
    qkv = device_memory<float>(n * (kHidden + 2 * kKeys));
    logits = device_memory<float>(std::min<std::size_t>(n, 64) * kVocabulary);
    workspace_bytes = cuda::product_workspace_bytes(rows, kVocabulary);
    workspace = device_memory<std::byte>(workspace_bytes);
  }
  ~Buffers() {
    for (void* memory :
         {static_cast<void*>(hidden), static_cast<void*>(inner), static_cast<void*>(out),
          static_cast<void*>(residual), static_cast<void*>(qkv), static_cast<void*>(logits),
          static_cast<void*>(workspace)}) {
      cudaFree(memory);
    }
  }
  Buffers(const Buffers&) = delete;
  Buffers& operator=(const Buffers&) = delete;

  cuda::ProductCall call(int rows, const __nv_bfloat16* input) const {
    cuda::ProductCall call;
    call.rows = rows;
    call.input = input;
    call.workspace = workspace;
    call.workspace_bytes = workspace_bytes;
    call.library = library;
    return call;
  }
};

enum Product { kQkv, kOutput, kGateUp, kDown, kHead, kProducts };
constexpr const char* kNames[] = {"qkv", "o", "gate+up", "down", "head"};

class Model {
 public:
  Model(const cuda::Launch& launch, DType type) : launch_(launch) {
    const RandomRows rows(type, *row_bytes(type, kHidden) * kVocabulary);
    for (int i = 0; i < kDistinct; ++i) {
      Layer layer;
      layer.q = rows.pack(launch, type, kHidden, kHidden);
      layer.k = rows.pack(launch, type, kKeys, kHidden);
      layer.v = rows.pack(launch, type, kKeys, kHidden);
      layer.o = rows.pack(launch, type, kHidden, kHidden);
      layer.gate = rows.pack(launch, type, kInner, kHidden);
      layer.up = rows.pack(launch, type, kInner, kHidden);
      layer.down = rows.pack(launch, type, kHidden, kInner);
      layers_.push_back(std::move(layer));
    }
    head_ = rows.pack(launch, type, kVocabulary, kHidden);
  }

  double bytes(Product product) const {
    const Layer& l = layers_[0];
    switch (product) {
      case kQkv:
        return static_cast<double>(l.q->bytes() + l.k->bytes() + l.v->bytes());
      case kOutput:
        return static_cast<double>(l.o->bytes());
      case kGateUp:
        return static_cast<double>(l.gate->bytes() + l.up->bytes());
      case kDown:
        return static_cast<double>(l.down->bytes());
      default:
        return static_cast<double>(head_->bytes());
    }
  }

  void run(Product product, int layer, int rows, const Buffers& buffers) const {
    const Layer& l = layers_[static_cast<std::size_t>(layer % kDistinct)];
    cuda::ProductCall call = buffers.call(rows, product == kDown ? buffers.inner : buffers.hidden);
    const auto use = [&](std::initializer_list<const PackedMatrix*> weights) {
      call.matrices = static_cast<int>(weights.size());
      std::copy(weights.begin(), weights.end(), call.weights);
    };
    switch (product) {
      case kQkv:
        use({l.q.get(), l.k.get(), l.v.get()});
        call.out_float = buffers.qkv;
        call.out_stride = kHidden + 2 * kKeys;
        break;
      case kOutput:
      case kDown:
        use({product == kOutput ? l.o.get() : l.down.get()});
        call.epilogue = cuda::Epilogue::add_residual;
        call.out_float = buffers.residual;
        call.out_stride = kHidden;
        break;
      case kGateUp:
        use({l.gate.get(), l.up.get()});
        call.epilogue = cuda::Epilogue::gated_silu;
        call.out_bfloat16 = buffers.out;
        call.out_stride = kInner;
        break;
      default:
        use({head_.get()});
        call.rows = std::min(rows, 64);
        call.out_float = buffers.logits;
        call.out_stride = kVocabulary;
        break;
    }
    check(cuda::product(launch_, call));
  }

 private:
  cuda::Launch launch_;
  std::vector<Layer> layers_;
  std::unique_ptr<PackedMatrix> head_;
};

template <class Work>
cudaGraphExec_t captured(cudaStream_t stream, Work&& work) {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t ready = nullptr;
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capture");
  work();
  check(cudaStreamEndCapture(stream, &graph), "capture");
  check(cudaGraphInstantiate(&ready, graph, 0), "graph");
  cudaGraphDestroy(graph);
  return ready;
}

std::vector<std::string> words(const char* list) {
  std::vector<std::string> result(1);
  for (; *list != 0; ++list) {
    if (*list == ',') {
      result.emplace_back();
    } else {
      result.back() += *list;
    }
  }
  return result;
}

void few_tokens(const cuda::Launch& launch, const Model& model, const char* name, int tokens,
                double bandwidth, cuda::LibraryProducts* library, Timer& timer) {
  const Buffers buffers(tokens, library);
  const auto timed = [&](auto&& work) {
    const cudaGraphExec_t graph = captured(launch.stream, work);
    const float time =
        timer.median(7, [&] { check(cudaGraphLaunch(graph, launch.stream), "launch"); });
    cudaGraphExecDestroy(graph);
    return static_cast<double>(time) * 1e-3;
  };
  double layer_bytes = 0;
  std::printf("%-5s %3d tokens:", name, tokens);
  for (int p = 0; p < kProducts; ++p) {
    const auto product = static_cast<Product>(p);
    const int times = product == kHead ? 2 : 4 * kDistinct;
    const double seconds = timed([&] {
                             for (int i = 0; i < times; ++i) model.run(product, i, tokens, buffers);
                           }) /
                           times;
    if (product != kHead) layer_bytes += model.bytes(product);
    std::printf("  %s %.1f us %.2f", kNames[p], seconds * 1e6,
                model.bytes(product) / seconds / bandwidth);
  }
  const double seconds = timed([&] {
    for (int i = 0; i < kLayers; ++i) {
      for (const Product product : {kQkv, kOutput, kGateUp, kDown}) {
        model.run(product, i, tokens, buffers);
      }
    }
    model.run(kHead, 0, tokens, buffers);
  });
  const double bytes = kLayers * layer_bytes + model.bytes(kHead);
  std::printf("  all %.3f ms, share %.3f\n", seconds * 1e3, bytes / seconds / bandwidth);
  std::fflush(stdout);
}

void many_tokens(const cuda::Launch& launch, const Model& model, const char* name, int tokens,
                 cuda::LibraryProducts* library, Timer& timer) {
  const Buffers buffers(tokens, library);
  std::printf("%-5s %5d tokens:", name, tokens);
  const double weights[] = {
      static_cast<double>((kHidden + 2 * kKeys) * kHidden), static_cast<double>(kHidden * kHidden),
      static_cast<double>(2 * kInner * kHidden), static_cast<double>(kInner * kHidden)};
  double all_seconds = 0, all_weights = 0;
  for (const Product product : {kQkv, kOutput, kGateUp, kDown}) {
    const int times = 4;
    const float time = timer.median(3, [&] {
      for (int i = 0; i < times; ++i) model.run(product, i, tokens, buffers);
    });
    const double seconds = static_cast<double>(time) * 1e-3 / times;
    all_seconds += seconds;
    all_weights += weights[product];
    std::printf("  %s %.0f", kNames[product], 2 * weights[product] * tokens / seconds * 1e-12);
  }
  std::printf("  layer %.0f TFLOP/s, %.3f ms\n", 2 * all_weights * tokens / all_seconds * 1e-12,
              all_seconds * 1e3);
  std::fflush(stdout);
  (void)launch;
}

struct Options {
  std::vector<int> tokens = {1, 2, 4, 8, 16, 32, 64}, many = {512, 2048};
  std::vector<std::string> types = {"bf16", "q8_0", "q4_k", "q6_k"};
  bool deterministic = false, library = true;
};

Options options_of(int argc, char** argv) {
  Options options;
  const auto numbers = [](const char* list) {
    std::vector<int> result;
    for (const std::string& word : words(list)) {
      if (!word.empty()) result.push_back(std::atoi(word.c_str()));
    }
    return result;
  };
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    const char* value = i + 1 < argc ? argv[i + 1] : "";
    if (flag == "--deterministic") {
      options.deterministic = true;
      continue;
    }
    if (flag == "--own") {
      options.library = false;
      continue;
    }
    if (flag == "--tokens") options.tokens = numbers(value);
    if (flag == "--many") options.many = numbers(value);
    if (flag == "--types") options.types = words(value);
    ++i;
  }
  return options;
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = options_of(argc, argv);
  cuda::Launch launch;
  launch.deterministic = options.deterministic;
  check(cudaDeviceGetAttribute(&launch.multiprocessors, cudaDevAttrMultiProcessorCount, 0),
        "device");
  int major = 0;
  check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0), "capability");
  launch.compute_capability = 10 * major;
  check(cudaStreamCreate(&launch.stream), "stream");
  Timer timer(launch.stream);
  const std::unique_ptr<cuda::LibraryProducts> library =
      options.library ? cuda::LibraryProducts::open() : nullptr;
  std::printf("library products: %s\n", library ? "yes" : "no");

  const std::size_t count = (std::size_t{4} << 30) / 16;
  auto* memory = device_memory<uint4>(count);
  auto* word = device_memory<std::uint32_t>(1);
  const auto blocks = static_cast<unsigned>(launch.multiprocessors * 4);
  const float read_time =
      timer.median(9, [&] { read_all<<<blocks, 512, 0, launch.stream>>>(memory, count, word); });
  cudaFree(memory);
  const double bandwidth = static_cast<double>(count) * 16 / read_time * 1e3;
  std::printf("read bandwidth %.3f TB/s\n", bandwidth * 1e-12);

  for (const std::string& name : options.types) {
    const DType type = name == "q8_0"   ? DType::q8_0
                       : name == "q4_k" ? DType::q4_k
                       : name == "q6_k" ? DType::q6_k
                                        : DType::bf16;
    const Model model(launch, type);
    for (const int tokens : options.tokens) {
      few_tokens(launch, model, name.c_str(), tokens, bandwidth, library.get(), timer);
    }
    for (const int tokens : options.many)
      many_tokens(launch, model, name.c_str(), tokens, library.get(), timer);
  }
  return 0;
}
