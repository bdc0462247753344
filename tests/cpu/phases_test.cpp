#include <cmath>
#include <numeric>

#include "cpu/matmul_fixture.h"
#include "cpu/operations_fixture.h"

namespace quire {
namespace {

using namespace test;

constexpr int kWidth = 160, kHeads = 5, kKvHeads = 1, kSize = 32, kInner = 352, kRows = 300;

// A layer whose quantised weights read only prepared activations, and the pages of one sequence.
class Layer {
 public:
  Layer(Device& device, DType type)
      : device_(device),
        pool_(device, {1, kKvHeads, kSize, 0}, device.default_kv_type(), 16, kPages) {
    weight_ = random_floats(kWidth, random_);
    pack(type, kHeads * kSize, kWidth, q_);
    pack(type, kKvHeads * kSize, kWidth, k_);
    pack(type, kKvHeads * kSize, kWidth, v_);
    pack(type, kWidth, kHeads * kSize, o_);
    pack(type, kInner, kWidth, gate_);
    pack(type, kInner, kWidth, up_);
    pack(type, kWidth, kInner, down_);
    mlp_.gate = &gate_;
    mlp_.up = &up_;
    mlp_.down = &down_;
    mlp_.ff = kInner;
    std::iota(pages_.begin(), pages_.end(), 0);
  }

  // Rows [first, first + count) of the sequence through the layer; those before are in the pages.
  std::vector<float> run(const std::vector<float>& start, int first, int count) {
    std::vector<float> hidden(start.begin() + std::ptrdiff_t{first} * kWidth,
                              start.begin() + std::ptrdiff_t{first + count} * kWidth);
    std::vector<float> query(static_cast<std::size_t>(count * kHeads * kSize));
    std::vector<float> attention(query.size());
    std::vector<float> inner(static_cast<std::size_t>(count * kInner));
    const RmsNorm norm{weight_.data(), 1e-5f};
    const SequenceRows sequence{0, count, first, pages_.data(), kPages};
    AttentionInputArgs input;
    input.rows = count;
    input.width = kWidth;
    input.hidden = hidden.data();
    input.norm = norm;
    input.q = &q_;
    input.k = &k_;
    input.v = &v_;
    input.heads = kHeads;
    input.query = query.data();
    input.kv = pool_.kv();
    input.sequences = {&sequence, 1};
    require_ok(device_.ops().attention_input(device_, input));
    PagedAttentionArgs paged;
    paged.sequences = {&sequence, 1};
    paged.heads = kHeads;
    paged.query = query.data();
    paged.kv = pool_.kv();
    paged.scale = 0.2f;
    paged.output = attention.data();
    require_ok(device_.ops().paged_attention(device_, paged));
    require_ok(device_.ops().attention_output(
        device_, {count, kWidth, attention.data(), &o_, {}, 1, hidden.data()}));
    require_ok(device_.ops().mlp_input(
        device_, {count, kWidth, hidden.data(), norm, &mlp_, inner.data(), nullptr, nullptr}));
    require_ok(device_.ops().mlp_output(
        device_, {count, kWidth, inner.data(), nullptr, nullptr, &mlp_, {}, 1, hidden.data()}));
    return hidden;
  }

 private:
  static constexpr int kPages = (kRows + 15) / 16;

  void pack(DType type, int rows, int columns, Linear& linear) {
    const auto stored =
        cpu::test::stored_matrix(type, rows, columns, cpu::test::Fill::random, random_);
    auto packed = device_.pack(cpu::test::view_of(stored, type, rows, columns), {});
    if (!packed) FAIL(packed.status().message());
    linear.weight = std::move(*packed);
  }

  Device& device_;
  std::mt19937 random_{11};
  PagePool pool_;
  std::vector<float> weight_;
  Linear q_, k_, v_, o_, gate_, up_, down_;
  MlpSpec mlp_;
  std::vector<PageId> pages_ = std::vector<PageId>(kPages);
};

WorkLimits limits() {
  WorkLimits limits;
  limits.rows = kRows;
  limits.width = kInner;
  limits.hidden = kWidth;
  limits.heads = kHeads;
  limits.head_size = kSize;
  limits.context = kRows;
  return limits;
}

std::vector<float> start_rows() {
  std::mt19937 random(12);
  return random_floats(std::size_t{kRows} * kWidth, random);
}

TEST_CASE("a quantised layer gives the same bits for all rows at once, in pieces and one by one") {
  const std::vector<float> start = start_rows();
  for (const DType type : {DType::q4_1, DType::q8_0}) {
    for (const cpu::Isa isa : available_isas()) {
      INFO(device_name(isa));
      std::vector<float> first;
      for (const int threads : {1, 2, 3}) {
        for (const int piece : {kRows, 130, 37, 1}) {
          if (piece == 1 && threads == 3) continue;
          const auto device = open_test_device(isa, threads);
          require_ok(device->reserve(limits()));
          Layer layer(*device, type);
          std::vector<float> all;
          for (int row = 0; row < kRows; row += piece) {
            const auto rows = layer.run(start, row, std::min(piece, kRows - row));
            all.insert(all.end(), rows.begin(), rows.end());
          }
          if (first.empty()) first = all;
          CHECK(std::isfinite(std::accumulate(all.begin(), all.end(), 0.0)));
          INFO(threads << " threads, " << piece << " rows");
          CHECK(same_bits(all, first));
        }
      }
    }
  }
}

TEST_CASE("a layer is five phases for any number of rows") {
  const std::vector<float> start = start_rows();
  int phases = 0;
  EngineOptions options;
  options.device = device_name(cpu::best_isa());
  options.threads = 2;
  options.executor.threads = 2;
  options.executor.post = [&](void (*task)(void*), void* argument) {  // once for each phase
    ++phases;
    task(argument);
  };
  Result<std::unique_ptr<Device>> device = open_device(options);
  REQUIRE(device.ok());
  require_ok((*device)->reserve(limits()));
  Layer layer(**device, DType::q8_0);
  for (const int rows : {1, 8, 33, 129, kRows}) {
    phases = 0;
    layer.run(start, 0, rows);
    INFO(rows << " rows");
    CHECK(phases <= 5);
    CHECK(phases >= 4);  // a short attention may be one piece
  }
}

TEST_CASE("an operation refuses an input whose prepared form is gone") {
  const auto device = open_test_device(cpu::best_isa(), 2);
  require_ok(device->reserve(limits()));
  Layer layer(*device, DType::q8_0);
  layer.run(start_rows(), 0, 3);
  cpu::Scratch& scratch = *static_cast<cpu::CpuDevice&>(*device).scratch();
  std::vector<float> array(64);
  cpu::Activations prepared;
  prepared.rows = 1;
  prepared.columns = 64;
  prepared.forms.floats = false;
  scratch.keep(prepared, array.data());
  CHECK_FALSE(scratch.take_kept(array.data(), 2, 64).rows == 1);
  scratch.keep(prepared, array.data());
  CHECK(scratch.take_kept(array.data(), 1, 64).rows == 1);
  CHECK(scratch.take_kept(array.data(), 1, 64).rows == 0);  // once
  scratch.keep(prepared, array.data());
  scratch.activations();
  CHECK(scratch.take_kept(array.data(), 1, 64).rows == 0);
  CHECK(scratch.lost(array.data()));
  scratch.keep({}, array.data());
  CHECK_FALSE(scratch.lost(array.data()));
}

}  // namespace
}  // namespace quire
