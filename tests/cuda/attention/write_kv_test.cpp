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
  int more_rows = 0;  // behind those of WriteCase, of its second sequence
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
    for (int i = 0; i < shape.more_rows; ++i) {
      row_sequence.push_back(1);
      row_position.push_back(4 + i);
      if ((4 + i) / shape.page_size > static_cast<int>(pages.size()) - 4) {
        pages.push_back(static_cast<std::int32_t>(pages.size()) + 2);
      }
    }
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

double dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

// A rotation keeps products of queries and keys, which are compared, relative to their norms.
double rotated_error(const std::vector<std::vector<double>>& exact,
                     const std::vector<std::vector<double>>& rotated) {
  double worst = 0;
  for (std::size_t a = 0; a < exact.size(); ++a) {
    for (std::size_t b = 0; b < exact.size(); ++b) {
      const double norms = std::sqrt(dot(exact[a], exact[a]) * dot(exact[b], exact[b]));
      const double error = std::fabs(dot(exact[a], exact[b]) - dot(rotated[a], rotated[b])) / norms;
      worst = std::isnan(error) ? 1e9 : std::max(worst, error);
    }
  }
  return worst;
}

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
  DeviceMemory<std::uint8_t> memory(page_bytes * (the_case.pages.size() + 2));
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
    std::vector<std::vector<double>> exact_rotated, rotated;
    for (int index = 0; index < the_case.parts(); ++index) {
      const std::vector<double> exact = the_case.exact(row, index);
      const bool rotates = shape.type == KvType::fp8 && index < shape.heads + shape.kv_heads;
      if (rotates) {
        exact_rotated.push_back(exact);
        rotated.emplace_back();
      }
      double largest = 0;
      for (const double x : exact) largest = std::max(largest, std::fabs(x));
      const int page = the_case.pages[the_case.first_page[the_case.row_sequence[row]] +
                                      the_case.row_position[row] / shape.page_size];
      std::uint8_t* in_page = bytes.data() + page * page_bytes + slab;
      const std::size_t place = static_cast<std::size_t>(index - shape.heads) * shape.page_size +
                                the_case.row_position[row] % shape.page_size;
      float scale = 0;
      if (index >= shape.heads && (shape.type == KvType::int8 || shape.type == KvType::fp8)) {
        std::uint8_t* at = in_page +
                           static_cast<std::size_t>(2) * shape.kv_heads * shape.page_size * size +
                           place * 4;
        std::memcpy(&scale, at, 4);
        std::memset(at, 0xff, 4);
      }
      if (shape.type == KvType::fp8 && index >= shape.heads + shape.kv_heads) {
        CHECK(std::log2(scale) == 8 * std::round((std::log2(scale) + 5) / 8) - 5);
        CHECK(scale * 448 >= largest * 0.999);
        CHECK(scale * 448 < largest * 256);
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
        } else if (shape.type == KvType::fp8) {
          const int head = index - shape.heads,
                    token = the_case.row_position[row] % shape.page_size;
          std::uint8_t& code =
              in_page[static_cast<std::size_t>(head) * shape.page_size * size +
                      (head < shape.kv_heads ? static_cast<std::size_t>(token) * size + i
                                             : fp8_value_place(token, i, size))];
          got = from_e4m3(code) * scale;
          code = 0xff;
          allowed = std::fabs(exact[i]) / 16 * 1.001 + scale / 1024 * 1.001;
        } else {
          std::uint16_t bits;
          std::memcpy(&bits, in_page + (place * size + i) * 2, 2);
          std::memset(in_page + (place * size + i) * 2, 0xff, 2);
          got = shape.type == KvType::f16 ? half_to_float(bits) : from_bfloat16(bits);
        }
        if (rotates) {
          rotated.back().push_back(got);
          continue;
        }
        const double error = std::fabs(got - exact[i]) / allowed;
        worst = std::isnan(error) ? 1e9 : std::max(worst, error);
      }
    }
    // Of each element an error up to 1 / 16 of it.
    if (!rotated.empty()) CHECK(rotated_error(exact_rotated, rotated) < 0.07);
  }
  CHECK(worst <= 1);
  // Nothing else was written.
  CHECK(std::count(bytes.begin(), bytes.end(), 0xff) == static_cast<std::ptrdiff_t>(bytes.size()));
}

TEST_CASE("queries, keys and values agree with float64, and only their places are written") {
  if (!has_gpu()) return;
  std::uint64_t seed = 1;
  for (const KvType type : {KvType::bf16, KvType::f16, KvType::int8, KvType::fp8}) {
    for (const auto norm :
         {cuda::QkNormKind::none, cuda::QkNormKind::per_head, cuda::QkNormKind::whole}) {
      for (const int head_size : {16, 24, 64, 80, 128, 256}) {
        WriteShape shape;
        shape.type = type;
        shape.norm = norm;
        shape.head_size = head_size;
        shape.rope = seed % 3 == 0 ? head_size / 2 : seed % 3 == 1 ? head_size : 0;
        shape.page_size = seed % 2 == 0 ? 8 : 16;
        if (type == KvType::fp8) shape.page_size = 16;
        shape.bias = seed % 4 < 2;
        shape.weights = seed % 5 != 0;
        shape.heads = seed % 2 == 0 ? 6 : 14;
        check_write(shape, seed++);
      }
    }
  }
  // Many rows, over many pages.
  for (const KvType type : {KvType::bf16, KvType::int8, KvType::fp8}) {
    for (const int head_size : {24, 64, 96, 128, 256}) {
      WriteShape shape;
      shape.type = type;
      shape.head_size = head_size;
      shape.rope = head_size / 4 * 2;
      shape.heads = 3;
      shape.kv_heads = 1;
      shape.norm = seed % 2 == 0 ? cuda::QkNormKind::per_head : cuda::QkNormKind::whole;
      shape.more_rows = 513 - 6 + static_cast<int>(seed % 3);
      check_write(shape, seed++);
    }
  }
  for (const KvType type : {KvType::bf16, KvType::f16}) {
    for (const int head_size : {32, 64, 128, 256}) {
      for (const int rows : {1, 700, 2500}) {
        WriteShape shape;
        shape.type = type;
        shape.head_size = shape.rope = head_size;
        shape.heads = seed % 2 == 0 ? 5 : 8;
        shape.kv_heads = 1;
        shape.norm = seed % 3 == 0 ? cuda::QkNormKind::per_head : cuda::QkNormKind::none;
        shape.bias = seed % 4 < 2;
        shape.more_rows = rows;
        check_write(shape, seed++);
      }
    }
  }
  WriteShape shared;
  shared.has_kv = false;
  check_write(shared, seed);
}

TEST_CASE("a large channel of an fp8 key is spread over all") {
  if (!has_gpu()) return;
  for (const int size : {64, 96, 128, 256}) {
    const int block = size & -size;  // what is rotated together
    std::vector<float> projected(static_cast<std::size_t>(3) * size);
    for (int head = 0; head < 2; ++head) projected[head * size + 37] = 100;
    DeviceMemory<float> device_projected(projected);
    DeviceMemory<std::int32_t> zeros(std::vector<std::int32_t>{0});
    const std::size_t slab = cuda::kv_slab_bytes(KvType::fp8, 16, 1, size);
    DeviceMemory<std::uint8_t> memory(slab);
    DeviceMemory<std::uint16_t> query(static_cast<std::size_t>(size));
    cuda::WriteKvCall call;
    call.rows = 1;
    call.heads = 1;
    call.projected = device_projected.get();
    call.kv = {reinterpret_cast<std::byte*>(memory.get()), slab, 0, KvType::fp8, 16, 1, size};
    call.sequences.first_page = zeros.get();
    call.sequences.pages = zeros.get();
    call.sequences.row_sequence = zeros.get();
    call.sequences.row_position = zeros.get();
    call.query = reinterpret_cast<__nv_bfloat16*>(query.get());
    DeviceStream stream;
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
    require_ok(cuda::write_kv(stream.launch, call));
    const std::vector<std::uint16_t> rotated = query.read();
    const std::vector<std::uint8_t> page = memory.read();
    // Of 100 / sqrt(block), with scale 1/4.
    const double code = from_e4m3(e4m3_code(400 / std::sqrt(static_cast<float>(block))));
    int negative = 0;
    for (int i = 0; i < size; ++i) {
      const bool inside = i / block == 37 / block;
      CAPTURE(size, i);
      CHECK(std::fabs(std::fabs(from_bfloat16(rotated[i])) -
                      (inside ? 100 / std::sqrt(block) : 0)) < 0.1);
      CHECK(std::fabs(from_e4m3(page[i])) == (inside ? code : 0));
      if (inside) CHECK((page[i] >> 7 != 0) == (rotated[i] >> 15 != 0));
      negative += inside && page[i] >> 7 != 0 ? 1 : 0;
    }
    CHECK(negative > 0);
    CHECK(negative < block);
  }
}

TEST_CASE("copied pages hold the wanted tokens of every layer and nothing else") {
  if (!has_gpu()) return;
  for (const KvType type : {KvType::bf16, KvType::int8, KvType::fp8}) {
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
        const std::size_t row = type == KvType::bf16 ? 48 : 24;
        for (int run = 0; run < 6; ++run) {
          const std::size_t at = 64 + layer * slab + run * 16 * row;
          const int box = type == KvType::fp8 && run >= 3 ? 16 : tokens;  // that is copied whole
          std::copy_n(before.begin() + from * view.page_bytes + at, box * row,
                      expected.begin() + to * view.page_bytes + at);
          if (type == KvType::bf16) continue;
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
