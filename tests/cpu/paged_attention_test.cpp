#include <algorithm>
#include <cmath>
#include <numeric>

#include "attention/reference.h"
#include "cpu/device_fixture.h"
#include "emulated.h"
#include "tensor/blocks.h"

namespace quire {
namespace {

using test::PagePool;

// A sequence whose last `rows` of `tokens` tokens are queries.
struct TestSequence {
  int tokens = 0;
  int rows = 0;
  std::vector<float> query, keys, values;  // [rows][heads][size], [tokens][kv_heads][size]
};

struct TestCase {
  int heads = 0, kv_heads = 0, head_size = 0;
  int window = 0;
  float soft_cap = 0;
  bool sinks = false;
  KvType type = KvType::f32;
  std::vector<TestSequence> sequences;
  std::vector<float> sink_logits;
  float scale() const { return 1 / std::sqrt(static_cast<float>(head_size)); }
};

TestCase make_case(std::mt19937& random, int heads, int kv_heads, int head_size,
                   std::vector<std::pair<int, int>> tokens_and_rows) {
  TestCase c;
  c.heads = heads;
  c.kv_heads = kv_heads;
  c.head_size = head_size;
  for (const auto& [tokens, rows] : tokens_and_rows) {
    const auto kv = static_cast<std::size_t>(tokens * kv_heads * head_size);
    c.sequences.push_back(
        {tokens, rows,
         test::random_floats(static_cast<std::size_t>(rows * heads * head_size), random, 2),
         test::random_floats(kv, random), test::random_floats(kv, random)});
  }
  c.sink_logits = test::random_floats(static_cast<std::size_t>(heads), random, 2);
  return c;
}

struct Run {
  cpu::Isa isa = cpu::Isa::scalar;
  int threads = 1;
  int page_size = 16;
  int chunk = 0;         // rows of a sequence in one call; 0: all
  bool together = true;  // all sequences in one call
  Compute compute = Compute::automatic;
};

// Whether queries and weights are rounded to bf16.
bool in_pairs(const TestCase& c, const Run& run) {
  return c.type == KvType::bf16 && run.compute == Compute::automatic &&
         cpu::pair_kernels(run.isa) != nullptr;
}

WorkLimits limits_of(const TestCase& c) {
  WorkLimits limits;
  for (const TestSequence& sequence : c.sequences) {
    limits.rows += sequence.rows;
    limits.context = std::max(limits.context, sequence.tokens);
  }
  limits.width = c.heads * c.head_size;
  limits.heads = c.heads;
  limits.head_size = c.head_size;
  return limits;
}

// Pages in random order; those behind the window of the first query of a call are given back.
struct Tables {
  std::vector<std::vector<PageId>> pages;
  int count = 0;

  Tables(const TestCase& c, int page_size) {
    for (const TestSequence& sequence : c.sequences) {
      count += (sequence.tokens + page_size - 1) / page_size;
    }
    std::vector<PageId> order(static_cast<std::size_t>(count));
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), std::mt19937(7));
    for (const TestSequence& sequence : c.sequences) {
      const int needed = (sequence.tokens + page_size - 1) / page_size;
      pages.emplace_back(order.end() - needed, order.end());
      order.resize(order.size() - static_cast<std::size_t>(needed));
    }
  }
};

std::vector<PageId> without_pages_behind(std::vector<PageId> pages, int first_position, int window,
                                         int page_size) {
  if (window == 0) return pages;
  const int oldest = std::max(0, first_position - window + 1);
  for (int page = 0; page < oldest / page_size; ++page)
    pages[static_cast<std::size_t>(page)] = kNoPage;
  return pages;
}

// Output rows of all sequences, one after the other.
std::vector<float> run_attention(const TestCase& c, const Run& run) {
  const std::unique_ptr<Device> device = test::open_test_device(run.isa, run.threads, run.compute);
  test::require_ok(device->reserve(limits_of(c)));
  Tables tables(c, run.page_size);
  PagePool pool(*device, {1, c.kv_heads, c.head_size, c.window}, c.type, run.page_size,
                tables.count);
  const int row_floats = c.heads * c.head_size;
  std::vector<float> output;
  std::vector<int> done(c.sequences.size(), 0), written(c.sequences.size(), 0);
  std::vector<std::size_t> starts;
  for (const TestSequence& sequence : c.sequences) {
    starts.push_back(output.size());
    output.resize(output.size() + static_cast<std::size_t>(sequence.rows * row_floats), NAN);
  }
  const auto call = [&](const std::vector<std::size_t>& members, int most) {
    std::vector<SequenceRows> rows;
    std::vector<std::vector<PageId>> kept;
    kept.reserve(members.size());
    std::vector<float> query;
    int row = 0;
    for (const std::size_t s : members) {
      const TestSequence& sequence = c.sequences[s];
      const int count = std::min(most, sequence.rows - done[s]);
      const int position = sequence.tokens - sequence.rows + done[s];
      for (; written[s] < position + count; ++written[s]) {
        const std::size_t at = static_cast<std::size_t>(written[s] * c.kv_heads * c.head_size);
        pool.write(run.isa, tables.pages[s], written[s], &sequence.keys[at], &sequence.values[at]);
      }
      kept.push_back(without_pages_behind(tables.pages[s], position, c.window, run.page_size));
      rows.push_back(
          {row, count, position, kept.back().data(), static_cast<int>(kept.back().size())});
      query.insert(query.end(), sequence.query.begin() + done[s] * row_floats,
                   sequence.query.begin() + (done[s] + count) * row_floats);
      row += count;
    }
    std::vector<float> result(query.size(), NAN);
    PagedAttentionArgs args;
    args.sequences = rows;
    args.heads = c.heads;
    args.query = query.data();
    args.kv = pool.kv();
    args.window = c.window;
    args.scale = c.scale();
    args.soft_cap = c.soft_cap;
    args.sinks = c.sinks ? c.sink_logits.data() : nullptr;
    args.output = result.data();
    test::require_ok(device->ops().paged_attention(*device, args));
    for (std::size_t i = 0; i < members.size(); ++i) {
      const std::size_t s = members[i];
      std::copy_n(result.begin() + rows[i].first_row * row_floats, rows[i].rows * row_floats,
                  output.begin() + static_cast<std::ptrdiff_t>(starts[s]) + done[s] * row_floats);
      done[s] += rows[i].rows;
    }
  };
  const int chunk = run.chunk > 0 ? run.chunk : 1 << 20;
  for (;;) {
    std::vector<std::size_t> open;
    for (std::size_t s = 0; s < c.sequences.size(); ++s) {
      if (done[s] < c.sequences[s].rows) open.push_back(s);
    }
    if (open.empty()) return output;
    if (run.together) {
      call(open, chunk);
    } else {
      call({open.front()}, chunk);
    }
  }
}

// The stored value of a key or value element, by the definition of each type.
std::vector<double> stored(const float* x, int n, KvType type) {
  std::vector<double> values(x, x + n);
  float largest = 0;
  for (int i = 0; i < n; ++i) largest = std::max(largest, std::fabs(x[i]));
  for (int i = 0; i < n; ++i) {
    double& value = values[static_cast<std::size_t>(i)];
    if (type == KvType::f16) value = half_to_float(float_to_half(x[i]));
    if (type == KvType::bf16) value = bfloat16_to_float(float_to_bfloat16(x[i]));
    if (type == KvType::int8) value = std::nearbyint(x[i] * (127 / largest)) * (largest / 127);
  }
  return values;
}

std::vector<double> expected(const TestCase& c, const Run& run = {}) {
  std::vector<double> output;
  const int size = c.head_size;
  for (const TestSequence& sequence : c.sequences) {
    std::vector<std::vector<double>> keys(static_cast<std::size_t>(c.kv_heads)), values = keys;
    for (int token = 0; token < sequence.tokens; ++token) {
      for (int head = 0; head < c.kv_heads; ++head) {
        const auto at = static_cast<std::size_t>((token * c.kv_heads + head) * size);
        const auto h = static_cast<std::size_t>(head);
        const auto key = stored(&sequence.keys[at], size, c.type);
        const auto value = stored(&sequence.values[at], size, c.type);
        keys[h].insert(keys[h].end(), key.begin(), key.end());
        values[h].insert(values[h].end(), value.begin(), value.end());
      }
    }
    for (int row = 0; row < sequence.rows; ++row) {
      for (int head = 0; head < c.heads; ++head) {
        const float* q = &sequence.query[static_cast<std::size_t>((row * c.heads + head) * size)];
        std::vector<double> query(q, q + size);
        if (in_pairs(c, run)) {
          for (double& x : query) {
            x = bfloat16_to_float(float_to_bfloat16(static_cast<float>(x) * c.scale()));
          }
        }
        const auto kv = static_cast<std::size_t>(head / (c.heads / c.kv_heads));
        const double sink = c.sink_logits[static_cast<std::size_t>(head)];
        attention::ReferenceQuery reference;
        reference.query = query;
        reference.keys = keys[kv];
        reference.values = values[kv];
        reference.position = sequence.tokens - sequence.rows + row;
        reference.window = c.window;
        reference.scale = in_pairs(c, run) ? 1 : c.scale();
        reference.soft_cap = c.soft_cap;
        reference.sink = c.sinks ? &sink : nullptr;
        const auto result = attention::reference_attention(reference);
        output.insert(output.end(), result.begin(), result.end());
      }
    }
  }
  return output;
}

// Weights rounded to bf16 differ by a 2^-9th each, and so does their sum.
double tolerance(const TestCase& c, const Run& run) {
  if (!in_pairs(c, run)) return 3e-6;
  float largest = 0;
  for (const TestSequence& sequence : c.sequences) {
    for (const float value : sequence.values) largest = std::max(largest, std::fabs(value));
  }
  return 1.01 * std::exp2(-8) * largest;
}

double largest_error(const std::vector<float>& a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double error = std::fabs(a[i] - b[i]);
    if (!(error <= largest)) largest = error;  // keeps a NaN
    if (std::isnan(largest)) break;
  }
  return largest;
}

TEST_CASE("paged attention agrees with float64 for all head sizes") {
  std::mt19937 random(1);
  const std::pair<int, int> heads[] = {{1, 1}, {4, 4}, {6, 2}, {7, 1}, {9, 3}, {8, 1}};
  int index = 0;
  for (const int head_size : {16, 24, 32, 64, 80, 96, 128, 256}) {
    const auto [q, kv] = heads[index++ % 6];
    TestCase c = make_case(random, q, kv, head_size, {{75, 75}, {130, 1}, {33, 20}, {1, 1}});
    const std::vector<double> want = expected(c);
    for (const cpu::Isa isa : test::row_kernel_isas()) {
      INFO("head size " << head_size << " " << test::device_name(isa));
      CHECK(largest_error(run_attention(c, {isa, 1, 16}), want) < 1e-5);
    }
  }
}

TEST_CASE("paged attention agrees with float64 for random shapes and options") {
  const unsigned seed = 20;
  std::mt19937 random(seed);
  const auto pick = [&](auto... choices) {
    const std::common_type_t<decltype(choices)...> all[] = {choices...};
    return all[random() % sizeof...(choices)];
  };
  for (int round = 0; round < (testing::kEmulated ? 10 : 40); ++round) {
    const int kv_heads = pick(1, 2, 3);
    const int heads = kv_heads * pick(1, 2, 3, 5, 50);
    std::vector<std::pair<int, int>> sequences;
    for (int i = pick(1, 2, 3); i > 0; --i) {
      const int tokens = 1 + static_cast<int>(random() % 200);
      sequences.push_back({tokens, pick(1, std::min(tokens, 7), tokens)});
    }
    TestCase c = make_case(random, heads, kv_heads, pick(16, 24, 32), sequences);
    c.window = pick(0, 0, 1, 5, 64, 100);
    c.soft_cap = pick(0.0f, 0.0f, 1.5f, 30.0f);
    c.sinks = pick(false, true);
    c.type = pick(KvType::f32, KvType::f16, KvType::bf16, KvType::int8);
    const auto isas = test::available_isas();
    Run run{isas[random() % isas.size()], pick(1, 2), pick(8, 16, 32, 64, 128), pick(0, 1, 7, 64),
            pick(false, true)};
    INFO("seed " << seed << " round " << round << " heads " << heads << "/" << kv_heads << " size "
                 << c.head_size << " window " << c.window << " cap " << c.soft_cap << " type "
                 << static_cast<int>(c.type) << " page " << run.page_size << " chunk " << run.chunk
                 << " " << test::device_name(run.isa));
    CHECK(largest_error(run_attention(c, run), expected(c, run)) < tolerance(c, run));
  }
}

// Biases of queries and keys, as Qwen2 has them: a size that all tokens share and small
// differences.
void make_large(TestCase& c, float query, float key, float key_spread, std::mt19937& random) {
  const std::size_t size = static_cast<std::size_t>(c.head_size);
  std::vector<float> signs = test::random_floats(size, random);
  for (float& sign : signs) sign = std::copysign(1.0f, sign);
  for (TestSequence& sequence : c.sequences) {
    for (std::size_t i = 0; i < sequence.query.size(); ++i) {
      sequence.query[i] += query * signs[i % size];
    }
    for (std::size_t i = 0; i < sequence.keys.size(); ++i) {
      sequence.keys[i] = key_spread * sequence.keys[i] + key * signs[i % size];
    }
  }
}

TEST_CASE("scores beyond the range of binary16 stay finite and agree with float64") {
  struct Sizes {
    float query, key, key_spread;
    double error;  // of the result: that of float32 scores of this size
  };
  std::mt19937 random(12);
  // Scores of about 16,000 and of 240 million, before the scale 128,000 and 1.9 billion: weights of
  // many keys, whose scores are no closer than float32 can tell them; and of one key.
  for (const Sizes& sizes : {Sizes{40, 50, 0.1f, 0.02}, Sizes{1000, 3e4f, 3e3f, 1e-5}}) {
    for (const KvType type : {KvType::f32, KvType::f16, KvType::bf16, KvType::int8}) {
      TestCase c = make_case(random, 6, 2, 64, {{75, 75}, {130, 1}, {33, 5}});
      c.type = type;
      make_large(c, sizes.query, sizes.key, sizes.key_spread, random);
      for (const cpu::Isa isa : test::row_kernel_isas()) {
        const Run run{isa, 1, 16};
        INFO(test::device_name(isa) << " type " << static_cast<int>(type) << " query "
                                    << sizes.query << " key " << sizes.key);
        CHECK(largest_error(run_attention(c, run), expected(c, run)) <
              tolerance(c, run) + sizes.error);
      }
    }
  }
}

TEST_CASE("a row's attention has the same bits however the pass is cut") {
  std::mt19937 random(3);
  for (const KvType type : {KvType::f16, KvType::int8, KvType::f32, KvType::bf16}) {
    TestCase c = make_case(random, 6, 2, 32, {{150, 150}, {90, 40}, {70, 1}, {200, 1}});
    c.type = type;
    c.window = type == KvType::f32 ? 70 : 0;
    c.sinks = type == KvType::bf16;
    for (const cpu::Isa isa : test::row_kernel_isas()) {
      INFO(test::device_name(isa) << " type " << static_cast<int>(type));
      const std::vector<float> whole = run_attention(c, {isa, 1, 16});
      CHECK(test::same_bits(whole, run_attention(c, {isa, 2, 16})));
      CHECK(test::same_bits(whole, run_attention(c, {isa, 1, 8})));
      CHECK(test::same_bits(whole, run_attention(c, {isa, 1, 64})));
      CHECK(test::same_bits(whole, run_attention(c, {isa, 1, 128})));
      CHECK(test::same_bits(whole, run_attention(c, {isa, 1, 16, 1})));
      CHECK(test::same_bits(whole, run_attention(c, {isa, 2, 32, 13})));
      CHECK(test::same_bits(whole, run_attention(c, {isa, 2, 16, 37, false})));
    }
  }
}

TEST_CASE("long sequences: splits over threads are merged to the bits of one thread") {
  std::mt19937 random(4);
  for (const int window : {0, 1500}) {
    TestCase c = make_case(random, 4, 1, 16, {{3000, 1}});
    c.window = window;
    c.sinks = window > 0;
    const std::vector<double> want = expected(c);
    for (const cpu::Isa isa : test::row_kernel_isas()) {
      INFO(test::device_name(isa) << " window " << window);
      const std::vector<float> alone = run_attention(c, {isa, 1, 16});
      CHECK(largest_error(alone, want) < 3e-6);
      CHECK(test::same_bits(alone, run_attention(c, {isa, 2, 64})));
      CHECK(test::same_bits(alone, run_attention(c, {isa, 4, 8})));
    }
  }
  TestCase chunk = make_case(random, 2, 1, 16, {{2100, 1100}});
  const std::vector<float> whole = run_attention(chunk, {cpu::best_isa(), 2, 16});
  CHECK(largest_error(whole, expected(chunk)) < 3e-6);
  CHECK(test::same_bits(whole, run_attention(chunk, {cpu::best_isa(), 2, 32, 100})));
}

TEST_CASE("all instruction sets compute attention to the same bits") {
  std::mt19937 random(5);
  for (const KvType type : {KvType::f32, KvType::f16, KvType::bf16, KvType::int8}) {
    TestCase c = make_case(random, 6, 2, 40, {{150, 20}, {90, 1}});
    c.type = type;
    c.soft_cap = type == KvType::f16 ? 20.0f : 0.0f;
    const std::vector<float> scalar = run_attention(c, {cpu::Isa::scalar, 1, 16});
    for (const cpu::Isa isa : test::row_kernel_isas()) {
      INFO(test::device_name(isa) << " type " << static_cast<int>(type));
      Run run{isa, 1, 16};
      if (in_pairs(c, run)) run.compute = Compute::f32;
      CHECK(test::same_bits(scalar, run_attention(c, run)));
    }
  }
}

TEST_CASE(
    "bf16 in pairs: odd head sizes, pages of 8 and windows at odd tokens agree with float64") {
  std::mt19937 random(8);
  for (const cpu::Isa isa : test::row_kernel_isas()) {
    if (cpu::pair_kernels(isa) == nullptr) continue;
    for (const int head_size : {15, 17, 64, 80, 96, 128, 256}) {
      TestCase c = make_case(random, 6, 2, head_size, {{75, 75}, {131, 1}, {33, 20}, {1, 1}});
      c.type = KvType::bf16;
      c.window = head_size % 2 == 0 ? 21 : 0;
      for (const int page : {8, 16, 64}) {
        const Run run{isa, 1, page};
        INFO("head size " << head_size << " page " << page << " " << test::device_name(isa));
        CHECK(largest_error(run_attention(c, run), expected(c, run)) < tolerance(c, run));
      }
    }
  }
}

TEST_CASE("int8 keys and values stay within half a step of each token's largest element") {
  std::mt19937 random(6);
  const int size = 64;
  for (const cpu::Isa isa : test::row_kernel_isas()) {
    const std::unique_ptr<Device> device = test::open_test_device(isa, 1);
    PagePool pool(*device, {1, 1, size, 0}, KvType::int8, 16, 1);
    const cpu::KvLayout layout = cpu::kv_layout(KvType::int8, 16, size);
    std::vector<std::vector<float>> keys, values;
    for (int token = 0; token < 16; ++token) {
      keys.push_back(test::random_floats(size, random, std::exp2(static_cast<float>(token))));
      values.push_back(test::random_floats(size, random, std::exp2(-static_cast<float>(token))));
      pool.write(isa, {0}, token, keys.back().data(), values.back().data());
    }
    std::vector<float> read_keys(size * attention::kKeyBlock), read_values(16 * size);
    cpu::row_kernels(isa).read_keys(layout, pool.kv().slab(0), 0, 16, read_keys.data());
    cpu::row_kernels(isa).read_values(layout, pool.kv().slab(0), 0, 16, size, read_values.data());
    for (std::size_t token = 0; token < 16; ++token) {
      const auto bound = [](const std::vector<float>& x) {
        float largest = 0;
        for (const float value : x) largest = std::max(largest, std::fabs(value));
        return largest / 127 * 0.5001f;
      };
      for (std::size_t i = 0; i < size; ++i) {
        CHECK(std::fabs(read_keys[i * attention::kKeyBlock + token] - keys[token][i]) <=
              bound(keys[token]));
        CHECK(std::fabs(read_values[token * size + i] - values[token][i]) <= bound(values[token]));
      }
    }
  }
}

}  // namespace
}  // namespace quire
