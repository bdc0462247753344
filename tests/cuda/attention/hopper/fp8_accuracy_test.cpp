// Attention over fp8 keys and values as a model meets it (written by write_kv, then read) against
// float64 on the numbers before any rounding.
#include <cmath>
#include <numeric>
#include <random>

#include "attention/hopper/hopper_attention.h"
#include "attention/write_kv.h"
#include "cuda/attention/stored_kv.h"
#include "cuda/device_memory.h"
#include "no_hopper.h"

namespace quire::test {
namespace {

constexpr int kPage = 64;

// One head and one sequence: [tokens][size] each. The last `rows` tokens are attended for.
struct Tensors {
  int tokens, rows, size;
  std::vector<float> queries, keys, values;

  Tensors(int tokens, int rows, int size, std::uint64_t seed)
      : tokens(tokens), rows(rows), size(size) {
    std::mt19937_64 random(seed);
    std::normal_distribution<float> normal(0, 1);
    for (std::vector<float>* tensor : {&queries, &keys, &values}) {
      tensor->resize(static_cast<std::size_t>(tokens) * size);
      for (float& x : *tensor) x = normal(random);
    }
  }
  // Multiplies a channel of queries and keys.
  void widen(int channel, float factor) {
    for (int token = 0; token < tokens; ++token) {
      queries[static_cast<std::size_t>(token) * size + channel] *= factor;
      keys[static_cast<std::size_t>(token) * size + channel] *= factor;
    }
  }
  void scale_queries(float factor) {
    for (float& x : queries) x *= factor;
  }
};

// [rows][size], causal.
std::vector<double> exact_attention(const Tensors& t, const std::vector<double>& queries,
                                    const std::vector<double>& keys,
                                    const std::vector<double>& values) {
  std::vector<double> output(static_cast<std::size_t>(t.rows) * t.size);
  std::vector<double> scores(t.tokens);
  for (int row = 0; row < t.rows; ++row) {
    const int end = t.tokens - t.rows + row + 1;
    const double* q = queries.data() + static_cast<std::size_t>(end - 1) * t.size;
    double most = -INFINITY, sum = 0;
    for (int key = 0; key < end; ++key) {
      const double* k = keys.data() + static_cast<std::size_t>(key) * t.size;
      scores[key] = std::inner_product(q, q + t.size, k, 0.0) / std::sqrt(t.size);
      most = std::max(most, scores[key]);
    }
    double* to = output.data() + static_cast<std::size_t>(row) * t.size;
    for (int key = 0; key < end; ++key) {
      const double weight = std::exp(scores[key] - most);
      sum += weight;
      for (int i = 0; i < t.size; ++i) {
        to[i] += weight * values[static_cast<std::size_t>(key) * t.size + i];
      }
    }
    for (int i = 0; i < t.size; ++i) to[i] /= sum;
  }
  return output;
}

std::vector<double> wide(const std::vector<float>& x) {
  return std::vector<double>(x.begin(), x.end());
}

// Rounded to e4m3 with one scale for all.
std::vector<double> per_tensor(const std::vector<float>& x) {
  double largest = 0;
  for (const float a : x) largest = std::max<double>(largest, std::fabs(a));
  std::vector<double> rounded;
  for (const float a : x)
    rounded.push_back(from_e4m3(e4m3_code(a / largest * 448)) * largest / 448);
  return rounded;
}

// Norm of the difference over the norm.
double error_of(const std::vector<double>& exact, const std::vector<double>& output) {
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    difference += (exact[i] - output[i]) * (exact[i] - output[i]);
    norm += exact[i] * exact[i];
  }
  return std::sqrt(difference / norm);
}

struct Outputs {
  std::vector<double> hopper, portable;  // [rows][size]
};

std::vector<double> widened(const std::vector<std::uint16_t>& bits) {
  std::vector<double> values;
  for (const std::uint16_t b : bits) values.push_back(from_bfloat16(b));
  return values;
}

Outputs attend(const Tensors& t) {
  std::vector<float> projected;
  std::vector<std::int32_t> sequence(t.tokens), position(t.tokens), pages(t.tokens / kPage + 1);
  for (int token = 0; token < t.tokens; ++token) {
    for (const auto* tensor : {&t.queries, &t.keys, &t.values}) {
      const auto from = tensor->begin() + static_cast<std::ptrdiff_t>(token) * t.size;
      projected.insert(projected.end(), from, from + t.size);
    }
  }
  std::iota(position.begin(), position.end(), 0);
  std::iota(pages.rbegin(), pages.rend(), 0);
  const std::size_t slab = cuda::kv_slab_bytes(KvType::fp8, kPage, 1, t.size);
  const int before = t.tokens - t.rows;
  DeviceMemory<float> device_projected(projected);
  DeviceMemory<std::int32_t> device_sequence(sequence), device_position(position),
      device_pages(pages), zero(std::vector<std::int32_t>{0}),
      rows(std::vector<std::int32_t>{t.rows}), first(std::vector<std::int32_t>{before});
  DeviceMemory<std::uint8_t> memory(slab * pages.size());
  DeviceMemory<std::uint16_t> query(static_cast<std::size_t>(t.tokens) * t.size),
      output(static_cast<std::size_t>(t.rows) * t.size);
  DeviceStream stream;
  cuda::WriteKvCall write;
  write.rows = t.tokens;
  write.heads = 1;
  write.projected = device_projected.get();
  write.kv = {reinterpret_cast<std::byte*>(memory.get()), slab, 0, KvType::fp8, kPage, 1, t.size};
  write.sequences.first_page = zero.get();
  write.sequences.pages = device_pages.get();
  write.sequences.row_sequence = device_sequence.get();
  write.sequences.row_position = device_position.get();
  write.query = reinterpret_cast<__nv_bfloat16*>(query.get());
  REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  require_ok(cuda::write_kv(stream.launch, write));

  cuda::PagedAttentionCall call;
  call.query = write.query + static_cast<std::size_t>(before) * t.size;
  call.output = reinterpret_cast<__nv_bfloat16*>(output.get());
  call.kv = write.kv;
  call.sequences = write.sequences;
  call.sequences.capacity = call.sequences.count = 1;
  call.sequences.first_row = zero.get();
  call.sequences.rows = rows.get();
  call.sequences.first_position = first.get();
  call.sequences.total_rows = call.sequences.max_rows = t.rows;
  call.sequences.max_keys = t.tokens;
  call.heads = 1;
  call.scale = 1 / std::sqrt(static_cast<float>(t.size));
  DeviceMemory<std::byte> workspace(cuda::attention_workspace_bytes(t.rows, 1, 1, t.size, t.tokens,
                                                                    stream.launch.multiprocessors));
  call.workspace = workspace.get();
  Outputs outputs;
  require_ok(cuda::hopper_attention(stream.launch, call));
  outputs.hopper = widened(output.read());
  require_ok(cuda::paged_attention(stream.launch, call));
  outputs.portable = widened(output.read());
  return outputs;
}

// The portable kernels round neither queries nor weights to 8 bits.
void check_errors(const Tensors& t, double most, double most_portable) {
  const std::vector<double> exact =
      exact_attention(t, wide(t.queries), wide(t.keys), wide(t.values));
  const Outputs outputs = attend(t);
  CHECK(error_of(exact, outputs.hopper) < most);
  CHECK(error_of(exact, outputs.portable) < most_portable);
}

TEST_CASE("fp8 attention of gaussian data is near float64") {
  if (no_hopper()) return;
  for (const int size : {64, 128}) {
    CAPTURE(size);
    check_errors(Tensors(1024, 1024, size, 3), 0.055, 0.042);
  }
}

TEST_CASE("rotation keeps fp8 attention exact where channels are large") {
  if (no_hopper()) return;
  for (const int size : {64, 128}) {
    Tensors t(1024, 1024, size, 5);
    for (const int channel : {3, 17, 30, 61}) t.widen(channel, 8);
    t.scale_queries(size == 128 ? 0.18f : 0.12f);  // scores of deviation 2
    const std::vector<double> exact =
        exact_attention(t, wide(t.queries), wide(t.keys), wide(t.values));
    const double plain = error_of(
        exact, exact_attention(t, per_tensor(t.queries), per_tensor(t.keys), per_tensor(t.values)));
    const Outputs outputs = attend(t);
    const double hopper = error_of(exact, outputs.hopper);
    const double portable = error_of(exact, outputs.portable);
    CAPTURE(size, plain, hopper, portable);
    CHECK(hopper < (size == 128 ? 0.4 : 0.5) * plain);
    CHECK(portable < 0.4 * plain);
  }
}

TEST_CASE("fp8 attention of long contexts loses nothing in its sums") {
  if (no_hopper()) return;
  for (const int size : {64, 128}) {
    CAPTURE(size);
    check_errors(Tensors(16384, 64, size, 7), 0.065, 0.045);
  }
}

TEST_CASE("fp8 attention finds one key among many") {
  if (no_hopper()) return;
  for (const int size : {64, 128}) {
    CAPTURE(size);
    Tensors t(16384, 64, size, 9);
    // A long key, to which all queries are turned.
    float* needle = t.keys.data() + static_cast<std::size_t>(5000) * size;
    for (int i = 0; i < size; ++i) needle[i] *= 1.5f;
    for (int token = t.tokens - t.rows; token < t.tokens; ++token) {
      float* q = t.queries.data() + static_cast<std::size_t>(token) * size;
      for (int i = 0; i < size; ++i) q[i] = 0.5f * q[i] + 0.8f * needle[i];
    }
    check_errors(t, 0.045, 0.045);
  }
}

}  // namespace
}  // namespace quire::test
