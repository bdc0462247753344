#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

#include "attention/hopper/hopper_attention.h"
#include "attention/write_kv.h"
#include "cuda/attention/stored_kv.h"
#include "cuda/device_memory.h"

namespace quire::test {

struct ForwardShape {
  KvType type = KvType::bf16;
  int head_size = 128, heads = 4, kv_heads = 2, page_size = 64;
  int window = 0;
  float soft_cap = 0;
  bool sinks = false;
  bool causal = true;
};

// Rows [first, first + rows) of a sequence, as one call sees them.
struct ForwardPart {
  int sequence = 0;
  int first = 0, rows = 1;
};

struct ForwardResult {
  std::vector<std::uint16_t> output;  // bf16 [row][heads][head_size]
  std::vector<float> log_sum_exp;     // [heads][row]
};

// Sequences whose keys and values lie in pages in random order. All bytes that belong to no token
// are 0xff: NaN. Contents depend on the seed alone, not on the page size.
class ForwardCase {
 public:
  ForwardCase(ForwardShape shape, std::vector<int> lengths, std::uint64_t seed)
      : shape_(shape), lengths_(std::move(lengths)), random_(seed) {
    int pages = 3;
    for (const int length : lengths_) pages += (length + shape.page_size - 1) / shape.page_size;
    std::vector<int> order(pages);
    std::iota(order.begin(), order.end(), 0);
    std::mt19937_64 shuffler(seed + shape.page_size);
    std::shuffle(order.begin(), order.end(), shuffler);
    view_.type = shape.type;
    view_.page_size = shape.page_size;
    view_.kv_heads = shape.kv_heads;
    view_.head_size = shape.head_size;
    const std::size_t slab =
        cuda::kv_slab_bytes(shape.type, shape.page_size, shape.kv_heads, shape.head_size);
    view_.layer_offset = slab;
    view_.page_bytes = 2 * slab + 256;  // the layer that is used, another, and a gap
    pool_.assign(view_.page_bytes * pages, 0xff);
    for (const int length : lengths_) {
      tables_.emplace_back();
      for (int page = 0; page * shape.page_size < length; ++page) {
        tables_.back().push_back(order.back());
        order.pop_back();
      }
    }
    fill();
    device_pool_ = std::make_unique<DeviceMemory<std::uint8_t>>(pool_);
    device_sinks_ = std::make_unique<DeviceMemory<float>>(sinks_);
  }

  const ForwardShape& shape() const { return shape_; }
  float scale() const { return 1 / std::sqrt(static_cast<float>(shape_.head_size)); }

  // A call's arrays on the device; runs it with either kernel, any number of times.
  class Call {
   public:
    Call(const ForwardCase& the_case, const std::vector<ForwardPart>& parts) : case_(the_case) {
      const ForwardShape& shape = the_case.shape_;
      std::vector<std::int32_t> first_row, rows, first_position, first_page, pages;
      std::vector<std::uint16_t> query;
      const std::size_t row_size = static_cast<std::size_t>(shape.heads) * shape.head_size;
      auto& sequences = call.sequences;
      for (const ForwardPart& part : parts) {
        first_row.push_back(sequences.total_rows);
        rows.push_back(part.rows);
        first_position.push_back(part.first);
        first_page.push_back(static_cast<std::int32_t>(pages.size()));
        const int end = part.first + part.rows;
        const int seen = shape.window > 0 ? std::max(0, part.first + 1 - shape.window) : 0;
        for (int page = 0; page * shape.page_size < end; ++page) {
          const bool given_back = (page + 1) * shape.page_size <= seen;
          pages.push_back(given_back ? -1 : the_case.tables_[part.sequence][page]);
        }
        pages.push_back(0x3fffffff);  // names no page
        const auto& all = the_case.queries_[part.sequence];
        query.insert(query.end(), all.begin() + part.first * row_size,
                     all.begin() + end * row_size);
        sequences.total_rows += part.rows;
        sequences.max_rows = std::max(sequences.max_rows, part.rows);
        sequences.max_keys = std::max(sequences.max_keys, end);
      }
      for (const auto* array : {&first_row, &rows, &first_position, &first_page, &pages}) {
        arrays_.push_back(std::make_unique<DeviceMemory<std::int32_t>>(*array));
      }
      query_ = std::make_unique<DeviceMemory<std::uint16_t>>(query);
      output_ = std::make_unique<DeviceMemory<std::uint16_t>>(query.size());
      const std::size_t states = static_cast<std::size_t>(sequences.total_rows) * shape.heads;
      log_sum_exp_ = std::make_unique<DeviceMemory<float>>(states);
      sequences.capacity = sequences.count = static_cast<int>(parts.size());
      sequences.first_row = arrays_[0]->get();
      sequences.rows = arrays_[1]->get();
      sequences.first_position = arrays_[2]->get();
      sequences.first_page = arrays_[3]->get();
      sequences.pages = arrays_[4]->get();
      call.query = reinterpret_cast<const __nv_bfloat16*>(query_->get());
      call.output = reinterpret_cast<__nv_bfloat16*>(output_->get());
      call.kv = the_case.view_;
      call.kv.base = reinterpret_cast<std::byte*>(the_case.device_pool_->get());
      call.heads = shape.heads;
      call.window = shape.window;
      call.scale = the_case.scale();
      call.soft_cap = shape.soft_cap;
      call.sinks = shape.sinks ? the_case.device_sinks_->get() : nullptr;
      const std::size_t portable = cuda::attention_workspace_bytes(
          sequences.total_rows, sequences.count, shape.heads, shape.head_size, sequences.max_keys,
          stream_.launch.multiprocessors);
      bytes_ = cuda::hopper_workspace_bytes(sequences.total_rows, sequences.count, shape.kv_heads);
      workspace_ = std::make_unique<DeviceMemory<std::byte>>(std::max(portable, bytes_ + 256));
      call.workspace = workspace_->get();
    }

    ForwardResult hopper() {
      poison();
      launch();
      return read();
    }
    void launch(std::byte* tiles = nullptr) {
      cuda::HopperOptions options;
      options.tiles = tiles;
      options.causal = case_.shape_.causal;
      options.log_sum_exp = log_sum_exp_->get();
      require_ok(cuda::hopper_attention(stream_.launch, call, options));
    }
    void list(std::byte* tiles) {
      cuda::HopperOptions options;
      options.causal = case_.shape_.causal;
      options.tiles = tiles;
      require_ok(cuda::list_hopper_tiles(stream_.launch, call, options));
    }
    std::size_t tiles_bytes() const { return bytes_; }
    ForwardResult results() { return {output_->read(), log_sum_exp_->read()}; }
    // Checks that the workspace past what was asked for is untouched.
    ForwardResult read() {
      ForwardResult result = results();
      const std::vector<std::byte> workspace = workspace_->read();
      REQUIRE(std::all_of(workspace.begin() + static_cast<std::ptrdiff_t>(bytes_), workspace.end(),
                          [](std::byte b) { return b == std::byte{0xff}; }));
      return result;
    }
    void poison() {
      workspace_->poison();
      poison_results();
    }
    void poison_results() {
      output_->poison();
      log_sum_exp_->poison();
      REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
    }
    std::vector<std::uint16_t> portable() {
      poison();
      require_ok(cuda::paged_attention(stream_.launch, call));
      return output_->read();
    }
    // By the kernels that the library chooses on this device, with the plan made before or not.
    std::vector<std::uint16_t> chosen(bool planned) {
      poison();
      cuda::Launch launch = stream_.launch;
      launch.compute_capability = 90;
      call.plan = nullptr;
      DeviceMemory<std::byte> plan(
          cuda::attention_plan_bytes(call.sequences.total_rows, call.sequences.count, call.heads,
                                     call.sequences.max_keys, launch.multiprocessors));
      if (planned) {
        call.plan = plan.get();
        require_ok(cuda::plan_attention(launch, call));
      }
      require_ok(cuda::paged_attention(launch, call));
      std::vector<std::uint16_t> output = output_->read();
      call.plan = nullptr;
      return output;
    }
    cudaStream_t stream() const { return stream_.launch.stream; }

    cuda::PagedAttentionCall call;

   private:
    const ForwardCase& case_;
    DeviceStream stream_;
    std::vector<std::unique_ptr<DeviceMemory<std::int32_t>>> arrays_;
    std::unique_ptr<DeviceMemory<std::uint16_t>> query_, output_;
    std::unique_ptr<DeviceMemory<float>> log_sum_exp_;
    std::unique_ptr<DeviceMemory<std::byte>> workspace_;
    std::size_t bytes_ = 0;
  };

  // Exact output and log-sum-exp of a part's row (counted from the part's first) and head. The keys
  // are those of the sequence up to the part's end.
  std::vector<double> exact(const ForwardPart& part, int row, int head, double& log_sum_exp) const {
    const int size = shape_.head_size;
    const int position = part.first + row;
    const int end = shape_.causal ? position + 1 : part.first + part.rows;
    const int first = shape_.window > 0 ? std::max(0, position + 1 - shape_.window) : 0;
    const int kv_head = head / (shape_.heads / shape_.kv_heads);
    const std::uint16_t* query = queries_[part.sequence].data() +
                                 (static_cast<std::size_t>(position) * shape_.heads + head) * size;
    std::vector<double> scores;
    double most = shape_.sinks ? sinks_[head] : -INFINITY;
    for (int key = first; key < end; ++key) {
      const double* k = stored(part.sequence, kv_head, key);
      double score = 0;
      for (int i = 0; i < size; ++i) score += value(query[i]) * k[i];
      score *= scale();
      if (shape_.soft_cap > 0) score = shape_.soft_cap * std::tanh(score / shape_.soft_cap);
      scores.push_back(score);
      most = std::max(most, score);
    }
    double sum = shape_.sinks ? std::exp(sinks_[head] - most) : 0;
    std::vector<double> output(size);
    for (int key = first; key < end; ++key) {
      const double weight = std::exp(scores[key - first] - most);
      const double* v = stored(part.sequence, shape_.kv_heads + kv_head, key);
      sum += weight;
      for (int i = 0; i < size; ++i) output[i] += weight * v[i];
    }
    for (double& x : output) x /= sum;
    log_sum_exp = most + std::log(sum);
    return output;
  }

  static double value(std::uint16_t bits) { return from_bfloat16(bits); }

 private:
  // A token's keys (head) or values (kv_heads + head), as the pages hold them.
  const double* stored(int sequence, int head, int token) const {
    return stored_[static_cast<std::size_t>(sequence) * 2 * shape_.kv_heads + head].data() +
           static_cast<std::size_t>(token) * shape_.head_size;
  }

  void fill() {
    std::normal_distribution<float> normal(0, 1);
    for (int head = 0; head < shape_.heads; ++head) sinks_.push_back(normal(random_));
    for (std::size_t i = 0; i < lengths_.size(); ++i) {
      const int sequence = static_cast<int>(i);
      queries_.emplace_back(static_cast<std::size_t>(lengths_[i]) * shape_.heads *
                            shape_.head_size);
      for (auto& q : queries_.back()) q = bfloat16_bits(2 * normal(random_));
      std::vector<float> row(shape_.head_size);
      for (int head = 0; head < 2 * shape_.kv_heads; ++head) {
        stored_.emplace_back();
        for (int token = 0; token < lengths_[i]; ++token) {
          for (float& x : row) x = normal(random_);
          const std::size_t page = tables_[sequence][token / shape_.page_size];
          store_token(view_, pool_.data() + page * view_.page_bytes + view_.layer_offset, head,
                      token % shape_.page_size, row, stored_.back());
        }
      }
    }
  }

  ForwardShape shape_;
  std::vector<int> lengths_;
  std::mt19937_64 random_;
  cuda::KvView view_;  // without a base
  std::vector<std::uint8_t> pool_;
  std::vector<std::vector<double>> stored_;
  std::vector<std::vector<int>> tables_;
  std::vector<std::vector<std::uint16_t>> queries_;
  std::vector<float> sinks_;
  std::unique_ptr<DeviceMemory<std::uint8_t>> device_pool_;
  std::unique_ptr<DeviceMemory<float>> device_sinks_;
};

}  // namespace quire::test
