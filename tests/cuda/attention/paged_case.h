#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <optional>
#include <random>
#include <vector>

#include "attention/paged_attention.h"
#include "attention/write_kv.h"
#include "cuda/attention/stored_kv.h"
#include "cuda/device_memory.h"

namespace quire::test {

struct CaseShape {
  KvType type = KvType::bf16;
  int page_size = 16;
  int heads = 4, kv_heads = 1, head_size = 64;
  int window = 0;
  float soft_cap = 0;
  bool sinks = false;
};

// Rows [first, first + rows) of a sequence, as one call sees them.
struct Part {
  int sequence = 0;
  int first = 0;
  int rows = 1;
};

// Sequences whose keys and values lie in pages in random order among pages of poison. The values
// that the reference uses are what the pages hold, exactly.
class PagedCase {
 public:
  // All sequences but the first begin with the first one's pages of `common` tokens, whole pages.
  PagedCase(CaseShape shape, std::vector<int> lengths, std::uint64_t seed, int common = 0)
      : shape_(shape), lengths_(std::move(lengths)), common_(common), random_(seed) {
    int pages = 3;
    for (const int length : lengths_) pages += (length + shape.page_size - 1) / shape.page_size;
    std::vector<int> order(pages);
    std::iota(order.begin(), order.end(), 0);
    std::mt19937_64 shuffler(seed + shape.page_size);  // contents do not depend on the page size
    std::shuffle(order.begin(), order.end(), shuffler);
    slab_ = cuda::kv_slab_bytes(shape.type, shape.page_size, shape.kv_heads, shape.head_size);
    page_bytes_ = 2 * slab_ + 256;  // the layer that is used, another, and a gap
    host_.assign(page_bytes_ * pages, 0xff);
    for (const int length : lengths_) {
      tables_.emplace_back();
      for (int page = 0; page * shape.page_size < length; ++page) {
        if (tables_.size() > 1 && page * shape.page_size < common) {
          tables_.back().push_back(tables_[0][page]);
          continue;
        }
        tables_.back().push_back(order.back());
        order.pop_back();
      }
    }
    poison_page_ = order.front();
    fill();
    device_ = std::make_unique<DeviceMemory<std::uint8_t>>(host_);
  }

  const CaseShape& shape() const { return shape_; }
  float scale() const { return 1 / std::sqrt(static_cast<float>(shape_.head_size)); }
  float sink(int head) const { return sinks_[head]; }

  cuda::KvView view() const {
    cuda::KvView view = host_view();
    view.base = reinterpret_cast<std::byte*>(device_->get());
    return view;
  }

  void set_deterministic(bool value) { stream_.launch.deterministic = value; }
  // Whose kernels compute; 0: those that need no more than 8.0.
  void set_compute_capability(int value) { stream_.launch.compute_capability = value; }

  // For calls from here on; null: none. Page tables then have a page of poison in place of what is
  // read for the prefix's first sequence alone, but not with `whole_tables`.
  void set_prefix(std::optional<cuda::SharedPrefix> prefix, bool whole_tables = false) {
    prefix_ = prefix;
    whole_tables_ = whole_tables;
  }

  // Outputs [row][heads][head_size] as bf16 bits. `capture`: through a graph, replayed twice.
  std::vector<std::uint16_t> attend(const std::vector<Part>& parts, bool capture = false) {
    Arrays arrays;
    std::vector<std::uint16_t> query;
    const std::size_t row_size = static_cast<std::size_t>(shape_.heads) * shape_.head_size;
    for (const Part& part : parts) {
      add(arrays, part);
      const auto& all = queries_[part.sequence];
      query.insert(query.end(), all.begin() + part.first * row_size,
                   all.begin() + (part.first + part.rows) * row_size);
    }
    DeviceMemory<std::int32_t> first_row(arrays.first_row), rows(arrays.rows),
        first_position(arrays.first_position), first_page(arrays.first_page), pages(arrays.pages);
    DeviceMemory<std::uint16_t> device_query(query), output(query.size() + row_size);
    DeviceMemory<float> sinks(sinks_);
    DeviceMemory<cuda::SharedPrefix> prefix(
        std::vector<cuda::SharedPrefix>{prefix_.value_or(cuda::SharedPrefix{})});
    cuda::PagedAttentionCall call;
    call.query = reinterpret_cast<const __nv_bfloat16*>(device_query.get());
    call.output = reinterpret_cast<__nv_bfloat16*>(output.get());
    call.kv = view();
    call.sequences.capacity = call.sequences.count = static_cast<int>(parts.size());
    call.sequences.first_row = first_row.get();
    call.sequences.rows = rows.get();
    call.sequences.first_position = first_position.get();
    call.sequences.first_page = first_page.get();
    call.sequences.pages = pages.get();
    call.sequences.prefix = prefix_ ? prefix.get() : nullptr;
    call.sequences.long_prefix = true;
    call.sequences.total_rows = arrays.total_rows;
    call.sequences.max_rows = arrays.max_rows;
    call.sequences.max_keys = arrays.max_keys;
    call.heads = shape_.heads;
    call.window = shape_.window;
    call.scale = scale();
    call.soft_cap = shape_.soft_cap;
    call.sinks = shape_.sinks ? sinks.get() : nullptr;
    const std::size_t bytes = cuda::attention_workspace_bytes(
        arrays.total_rows, static_cast<int>(parts.size()), shape_.heads, shape_.head_size,
        arrays.max_keys, stream_.launch.multiprocessors);
    DeviceMemory<std::byte> workspace(bytes + 256);
    call.workspace = workspace.get();
    run(call, capture, output);
    check_untouched(workspace, bytes);
    std::vector<std::uint16_t> result = output.read();
    for (std::size_t i = query.size(); i < result.size(); ++i) REQUIRE(result[i] == 0xffff);
    result.resize(query.size());
    return result;
  }

  // Keys and values of a sequence's key-value head, and a query, in float64.
  const std::vector<double>& keys(int sequence, int head) const {
    return keys_[sequence * shape_.kv_heads + head];
  }
  const std::vector<double>& values(int sequence, int head) const {
    return values_[sequence * shape_.kv_heads + head];
  }
  std::vector<double> query(int sequence, int row, int head) const {
    std::vector<double> query(shape_.head_size);
    const std::size_t at = (static_cast<std::size_t>(row) * shape_.heads + head) * shape_.head_size;
    for (int i = 0; i < shape_.head_size; ++i) {
      query[i] = from_bfloat16(queries_[sequence][at + i]);
    }
    return query;
  }

 private:
  struct Arrays {
    std::vector<std::int32_t> first_row, rows, first_position, first_page, pages;
    int total_rows = 0, max_rows = 0, max_keys = 0;
  };

  // A page table with what stands behind the window given back, and an id that no pool has between
  // the tables.
  void add(Arrays& arrays, const Part& part) const {
    const int index = static_cast<int>(arrays.rows.size());
    const bool sharer = prefix_ && !whole_tables_ && index > prefix_->first &&
                        index < prefix_->first + prefix_->sequences;
    arrays.first_row.push_back(arrays.total_rows);
    arrays.rows.push_back(part.rows);
    arrays.first_position.push_back(part.first);
    arrays.first_page.push_back(static_cast<std::int32_t>(arrays.pages.size()));
    const int seen = shape_.window > 0 ? std::max(0, part.first + 1 - shape_.window) : 0;
    const int end = part.first + part.rows;
    for (int page = 0; page * shape_.page_size < end; ++page) {
      const bool behind = (page + 1) * shape_.page_size <= seen;
      const bool shared = sharer && (page + 1) * shape_.page_size <= prefix_->keys;
      arrays.pages.push_back(behind ? -1 : shared ? poison_page_ : tables_[part.sequence][page]);
    }
    arrays.pages.push_back(0x3fffffff);
    arrays.total_rows += part.rows;
    arrays.max_rows = std::max(arrays.max_rows, part.rows);
    arrays.max_keys = std::max(arrays.max_keys, end);
  }

  void run(const cuda::PagedAttentionCall& call, bool capture,
           DeviceMemory<std::uint16_t>& output) {
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
    if (!capture) return require_ok(cuda::paged_attention(stream_.launch, call));
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t executable = nullptr;
    REQUIRE(cudaStreamBeginCapture(stream_.launch.stream, cudaStreamCaptureModeThreadLocal) ==
            cudaSuccess);
    require_ok(cuda::paged_attention(stream_.launch, call));
    REQUIRE(cudaStreamEndCapture(stream_.launch.stream, &graph) == cudaSuccess);
    REQUIRE(cudaGraphInstantiate(&executable, graph, 0) == cudaSuccess);
    for (int i = 0; i < 2; ++i) {
      output.poison();
      REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
      REQUIRE(cudaGraphLaunch(executable, stream_.launch.stream) == cudaSuccess);
      REQUIRE(cudaStreamSynchronize(stream_.launch.stream) == cudaSuccess);
    }
    cudaGraphExecDestroy(executable);
    cudaGraphDestroy(graph);
  }

  void check_untouched(const DeviceMemory<std::byte>& memory, std::size_t from) {
    const std::vector<std::byte> bytes = memory.read();
    for (std::size_t i = from; i < bytes.size(); ++i) REQUIRE(bytes[i] == std::byte{0xff});
  }

  void fill() {
    std::normal_distribution<float> normal(0, 1);
    sinks_.resize(shape_.heads);
    for (float& sink : sinks_) sink = normal(random_);
    for (std::size_t sequence = 0; sequence < lengths_.size(); ++sequence) {
      queries_.emplace_back(static_cast<std::size_t>(lengths_[sequence]) * shape_.heads *
                            shape_.head_size);
      for (auto& q : queries_.back()) q = bfloat16_bits(2 * normal(random_));
      for (int head = 0; head < shape_.kv_heads; ++head) {
        const float magnitude = std::exp(normal(random_));
        keys_.push_back(fill_head(sequence, head, 1, normal, keys_));
        values_.push_back(fill_head(sequence, shape_.kv_heads + head, magnitude, normal, values_));
      }
    }
  }

  // Without a base.
  cuda::KvView host_view() const {
    cuda::KvView view;
    view.page_bytes = page_bytes_;
    view.layer_offset = slab_;
    view.type = shape_.type;
    view.page_size = shape_.page_size;
    view.kv_heads = shape_.kv_heads;
    view.head_size = shape_.head_size;
    return view;
  }

  // One head of keys, or of values after those of the keys; returns what was stored. `before`: the
  // like of all heads before it.
  std::vector<double> fill_head(std::size_t sequence, int head, float magnitude,
                                std::normal_distribution<float>& normal,
                                const std::vector<std::vector<double>>& before) {
    const int size = shape_.head_size;
    std::vector<double> stored;
    std::vector<float> row(size);
    int token = 0;
    if (sequence > 0 && common_ > 0) {
      const auto& first = before[head % shape_.kv_heads];
      token = std::min(common_, lengths_[sequence]);
      stored.assign(first.begin(), first.begin() + static_cast<std::ptrdiff_t>(token) * size);
    }
    for (; token < lengths_[sequence]; ++token) {
      for (float& x : row) x = magnitude * normal(random_);
      const int page = tables_[sequence][token / shape_.page_size];
      std::uint8_t* slab = host_.data() + page * page_bytes_ + slab_;
      store_token(host_view(), slab, head, token % shape_.page_size, row, stored);
    }
    return stored;
  }

  CaseShape shape_;
  std::vector<int> lengths_;
  int common_;
  std::optional<cuda::SharedPrefix> prefix_;
  bool whole_tables_ = false;
  int poison_page_ = 0;
  std::mt19937_64 random_;
  std::size_t slab_ = 0, page_bytes_ = 0;
  std::vector<std::uint8_t> host_;
  std::vector<std::vector<int>> tables_;
  std::vector<std::vector<std::uint16_t>> queries_;
  std::vector<std::vector<double>> keys_, values_;
  std::vector<float> sinks_;
  std::unique_ptr<DeviceMemory<std::uint8_t>> device_;
  DeviceStream stream_;
};

}  // namespace quire::test
