#include "attention/write_kv.h"

#include "paged_case.h"
#include "tensor/blocks.h"

namespace quire::test {
namespace {

struct WriteShape {
  KvType type = KvType::bf16;
  cuda::QkNormKind norm = cuda::QkNormKind::none;
  int page_size = 16;
  int heads = 4, kv_heads = 2, head_size = 64;
  int rope = 64;
  bool bias = false, weights = true, has_kv = true;
};

std::vector<float> random_floats(std::size_t count, std::mt19937_64& random, float deviation = 1) {
  std::normal_distribution<float> normal(0, deviation);
  std::vector<float> values(count);
  for (float& x : values) x = normal(random);
  return values;
}

// Two sequences: rows 0 ... 4 at positions 13 ... 17 of the first, row 5 at 3 of the second.
struct WriteCase {
  WriteShape shape;
  std::vector<std::int32_t> row_sequence = {0, 0, 0, 0, 0, 1};
  std::vector<std::int32_t> row_position = {13, 14, 15, 16, 17, 3};
  std::vector<std::int32_t> first_page = {0, 3}, pages = {4, 0, 2, 5};
  std::vector<float> projected, bias, q_norm, k_norm, cosine, sine;

  int rows() const { return static_cast<int>(row_sequence.size()); }
  int parts() const { return shape.heads + (shape.has_kv ? 2 * shape.kv_heads : 0); }

  WriteCase(const WriteShape& shape, std::uint64_t seed) : shape(shape) {
    std::mt19937_64 random(seed);
    projected =
        random_floats(static_cast<std::size_t>(rows()) * parts() * shape.head_size, random, 3);
    bias = random_floats(
        static_cast<std::size_t>(shape.heads + 2 * shape.kv_heads) * shape.head_size, random);
    const bool whole = shape.norm == cuda::QkNormKind::whole;
    q_norm = random_floats(whole ? shape.heads * shape.head_size : shape.head_size, random);
    k_norm = random_floats(whole ? shape.kv_heads * shape.head_size : shape.head_size, random);
    for (int i = 0; i < rows() * shape.rope / 2; ++i) {
      cosine.push_back(std::cos(static_cast<float>(i)));
      sine.push_back(std::sin(static_cast<float>(i)));
    }
  }

  // What head `index` of a row (queries, keys, values) must become.
  std::vector<double> exact(int row, int index) const {
    const int size = shape.head_size;
    std::vector<double> all;  // with bias
    for (int i = 0; i < parts() * size; ++i) {
      all.push_back(
          static_cast<double>(projected[static_cast<std::size_t>(row) * parts() * size + i]) +
          (shape.bias ? bias[i] : 0));
    }
    std::vector<double> head(all.begin() + index * size, all.begin() + (index + 1) * size);
    const bool query = index < shape.heads;
    if (index >= shape.heads + shape.kv_heads) return head;
    const int first = query ? 0 : shape.heads, heads = query ? shape.heads : shape.kv_heads;
    if (shape.norm != cuda::QkNormKind::none) {
      const bool whole = shape.norm == cuda::QkNormKind::whole;
      const int begin = whole ? first * size : index * size, count = whole ? heads * size : size;
      double sum = 0;
      for (int i = 0; i < count; ++i) sum += all[begin + i] * all[begin + i];
      const double factor = 1 / std::sqrt(sum / count + 1e-5);
      const std::vector<float>& weights = query ? q_norm : k_norm;
      for (int i = 0; i < size; ++i) {
        head[i] *= factor;
        if (shape.weights) head[i] *= weights[whole ? (index - first) * size + i : i];
      }
    }
    const int half = shape.rope / 2;
    for (int i = 0; i < half; ++i) {
      const double c = cosine[row * half + i], s = sine[row * half + i];
      const double x = head[i], y = head[i + half];
      head[i] = x * c - y * s;
      head[i + half] = y * c + x * s;
    }
    return head;
  }
};

void check_write(const WriteShape& shape, std::uint64_t seed) {
  CAPTURE(static_cast<int>(shape.type), static_cast<int>(shape.norm), shape.page_size,
          shape.head_size, shape.rope, shape.bias, shape.has_kv);
  const WriteCase the_case(shape, seed);
  const int rows = the_case.rows(), size = shape.head_size;
  DeviceStream stream;
  DeviceMemory<float> projected(the_case.projected), bias(the_case.bias), q_norm(the_case.q_norm),
      k_norm(the_case.k_norm), cosine(the_case.cosine), sine(the_case.sine);
  DeviceMemory<std::int32_t> row_sequence(the_case.row_sequence),
      row_position(the_case.row_position), first_page(the_case.first_page), pages(the_case.pages);
  const std::size_t slab =
      cuda::kv_slab_bytes(shape.type, shape.page_size, shape.kv_heads, shape.head_size);
  const std::size_t page_bytes = 3 * slab;
  DeviceMemory<std::uint8_t> memory(page_bytes * 6);
  DeviceMemory<std::uint16_t> query(static_cast<std::size_t>(rows) * shape.heads * size);
  cuda::WriteKvCall call;
  call.rows = rows;
  call.heads = shape.heads;
  call.projected = projected.get();
  call.has_kv = shape.has_kv;
  if (shape.bias) {
    call.q_bias = bias.get();
    call.k_bias = bias.get() + shape.heads * size;
    call.v_bias = bias.get() + (shape.heads + shape.kv_heads) * size;
  }
  call.norm = shape.norm;
  call.q_norm = shape.weights ? q_norm.get() : nullptr;
  call.k_norm = shape.weights ? k_norm.get() : nullptr;
  call.epsilon = 1e-5f;
  call.rope_dimensions = shape.rope;
  call.cosine = cosine.get();
  call.sine = sine.get();
  call.kv.base = reinterpret_cast<std::byte*>(memory.get());
  call.kv.page_bytes = page_bytes;
  call.kv.layer_offset = slab;
  call.kv.type = shape.type;
  call.kv.page_size = shape.page_size;
  call.kv.kv_heads = shape.kv_heads;
  call.kv.head_size = size;
  call.sequences.first_page = first_page.get();
  call.sequences.pages = pages.get();
  call.sequences.row_sequence = row_sequence.get();
  call.sequences.row_position = row_position.get();
  call.sequences.total_rows = rows;
  call.query = reinterpret_cast<__nv_bfloat16*>(query.get());
  REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  require_ok(cuda::write_kv(stream.launch, call));

  const std::vector<std::uint16_t> queries = query.read();
  std::vector<std::uint8_t> bytes = memory.read();
  double worst = 0;
  for (int row = 0; row < rows; ++row) {
    for (int index = 0; index < the_case.parts(); ++index) {
      const std::vector<double> exact = the_case.exact(row, index);
      double largest = 0;
      for (const double x : exact) largest = std::max(largest, std::fabs(x));
      const int page = the_case.pages[the_case.first_page[the_case.row_sequence[row]] +
                                      the_case.row_position[row] / shape.page_size];
      std::uint8_t* in_page = bytes.data() + page * page_bytes + slab;
      const std::size_t place = static_cast<std::size_t>(index - shape.heads) * shape.page_size +
                                the_case.row_position[row] % shape.page_size;
      float scale = 0;
      if (index >= shape.heads && shape.type == KvType::int8) {
        std::uint8_t* at = in_page +
                           static_cast<std::size_t>(2) * shape.kv_heads * shape.page_size * size +
                           place * 4;
        std::memcpy(&scale, at, 4);
        std::memset(at, 0xff, 4);
      }
      for (int i = 0; i < size; ++i) {
        double got;
        double allowed = std::fabs(exact[i]) / 250 + 1e-5;
        if (index < shape.heads) {
          got = from_bfloat16(
              queries[(static_cast<std::size_t>(row) * shape.heads + index) * size + i]);
        } else if (shape.type == KvType::int8) {
          got = static_cast<std::int8_t>(in_page[place * size + i]) * static_cast<double>(scale);
          in_page[place * size + i] = 0xff;
          allowed = largest / 254 * 1.001;
        } else {
          std::uint16_t bits;
          std::memcpy(&bits, in_page + (place * size + i) * 2, 2);
          std::memset(in_page + (place * size + i) * 2, 0xff, 2);
          got = shape.type == KvType::f16 ? half_to_float(bits) : from_bfloat16(bits);
        }
        const double error = std::fabs(got - exact[i]) / allowed;
        worst = std::isnan(error) ? 1e9 : std::max(worst, error);
      }
    }
  }
  CHECK(worst <= 1);
  // Nothing else was written.
  CHECK(std::count(bytes.begin(), bytes.end(), 0xff) == static_cast<std::ptrdiff_t>(bytes.size()));
}

TEST_CASE("queries, keys and values agree with float64, and only their places are written") {
  if (!has_gpu()) return;
  std::uint64_t seed = 1;
  for (const KvType type : {KvType::bf16, KvType::f16, KvType::int8}) {
    for (const auto norm :
         {cuda::QkNormKind::none, cuda::QkNormKind::per_head, cuda::QkNormKind::whole}) {
      for (const int head_size : {16, 24, 64, 80, 128, 256}) {
        WriteShape shape;
        shape.type = type;
        shape.norm = norm;
        shape.head_size = head_size;
        shape.rope = seed % 3 == 0 ? head_size / 2 : seed % 3 == 1 ? head_size : 0;
        shape.page_size = seed % 2 == 0 ? 8 : 16;
        shape.bias = seed % 4 < 2;
        shape.weights = seed % 5 != 0;
        shape.heads = seed % 2 == 0 ? 6 : 14;
        check_write(shape, seed++);
      }
    }
  }
  WriteShape shared;
  shared.has_kv = false;
  check_write(shared, seed);
}

TEST_CASE("copied pages hold the wanted tokens of every layer and nothing else") {
  if (!has_gpu()) return;
  for (const KvType type : {KvType::bf16, KvType::int8}) {
    cuda::KvView view;
    view.type = type;
    view.page_size = 16;
    view.kv_heads = 3;
    view.head_size = 24;
    const int layers = 2;
    const std::size_t slab = cuda::kv_slab_bytes(type, 16, 3, 24);
    view.page_bytes = layers * slab + 64;
    view.layer_offset = 64;
    std::mt19937_64 random(5);
    std::vector<std::uint8_t> before(view.page_bytes * 4);
    for (auto& byte : before) byte = static_cast<std::uint8_t>(random());
    DeviceMemory<std::uint8_t> memory(before);
    view.base = reinterpret_cast<std::byte*>(memory.get());
    DeviceMemory<cuda::KvCopy> copies(std::vector<cuda::KvCopy>{{3, 1, 5}, {0, 2, 16}});
    DeviceStream stream;
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
    require_ok(cuda::copy_kv_pages(stream.launch, view, layers, copies.get(), 2));
    std::vector<std::uint8_t> expected = before;
    const auto copy = [&](std::size_t from, std::size_t to, int tokens) {
      for (int layer = 0; layer < layers; ++layer) {
        const std::size_t row = type == KvType::int8 ? 24 : 48;
        for (int run = 0; run < 6; ++run) {
          const std::size_t at = 64 + layer * slab + run * 16 * row;
          std::copy_n(before.begin() + from * view.page_bytes + at, tokens * row,
                      expected.begin() + to * view.page_bytes + at);
          if (type != KvType::int8) continue;
          const std::size_t scales = 64 + layer * slab + 6 * 16 * row + run * 16 * 4;
          std::copy_n(before.begin() + from * view.page_bytes + scales, tokens * 4,
                      expected.begin() + to * view.page_bytes + scales);
        }
      }
    };
    copy(3, 1, 5);
    copy(0, 2, 16);
    CHECK(memory.read() == expected);
  }
}

}  // namespace
}  // namespace quire::test
