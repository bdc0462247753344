#include <algorithm>
#include <utility>

#include "base/checked.h"
#include "base/error.h"
#include "model/decoder.h"

namespace quire::model {
namespace {

constexpr std::uint64_t kLine = 64;  // bytes that an array may be rounded up to

struct Sizes {
  std::int64_t query = 0;    // widest heads * head_size
  std::int64_t inner = 0;    // widest experts used * ff
  std::int64_t experts = 0;  // most experts used
  std::int64_t widest = 0;   // input or output of any Linear but the head
  int heads = 0, kv_heads = 0, head_size = 0;
  int mixture = 0;  // most experts of a layer
};

Sizes sizes_of(const ModelConfig& config) {
  Sizes sizes;
  sizes.widest = config.width;
  for (const LayerSpec& layer : config.layers) {
    const std::int64_t query = std::int64_t{layer.heads} * layer.head_size;
    sizes.query = std::max(sizes.query, query);
    sizes.inner = std::max(sizes.inner, std::int64_t{std::max(1, layer.experts_used)} * layer.ff);
    sizes.experts = std::max(sizes.experts, std::int64_t{layer.experts_used});
    sizes.widest = std::max({sizes.widest, query, std::int64_t{layer.ff}});
    sizes.heads = std::max(sizes.heads, layer.heads);
    sizes.kv_heads = std::max(sizes.kv_heads, layer.kv_heads);
    sizes.mixture = std::max(sizes.mixture, layer.experts);
    sizes.head_size = std::max(sizes.head_size, layer.head_size);
  }
  return sizes;
}

}  // namespace

WorkLimits Decoder::work_limits(const ModelConfig& config, const DecoderLimits& limits) {
  const Sizes sizes = sizes_of(config);
  WorkLimits work;
  work.rows = limits.rows;
  work.sequences = limits.sequences;
  work.groups = static_cast<int>(config.kv_groups.size());
  work.page_size = limits.page_size;
  work.width = static_cast<int>(sizes.widest);
  work.hidden = config.width;
  work.heads = sizes.heads;
  work.kv_heads = sizes.kv_heads;
  work.head_size = sizes.head_size;
  work.experts = sizes.mixture;
  work.experts_used = static_cast<int>(sizes.experts);
  work.logit_rows = limits.logit_rows;
  work.vocabulary = config.vocabulary;
  work.context = limits.context;
  return work;
}

// The arrays of `allocate`, each rounded up to whole lines.
std::size_t Decoder::activation_bytes(const ModelConfig& config, const DecoderLimits& limits,
                                      const Device& device) {
  const Sizes sizes = sizes_of(config);
  const auto element = static_cast<std::uint64_t>(device.activation_bytes());
  const auto of = [](std::int64_t count, std::uint64_t bytes) {
    return CheckedSize(static_cast<std::uint64_t>(count)) * bytes;
  };
  const CheckedSize row = of(config.width + 2 * sizes.experts, sizeof(float)) +
                          of(2 * sizes.query + sizes.inner, element);
  const CheckedSize logit_row = of(config.vocabulary, sizeof(float)) + of(config.width, element);
  CheckedSize total = row * static_cast<std::uint64_t>(limits.rows) +
                      logit_row * static_cast<std::uint64_t>(limits.logit_rows);
  for (const RopeTable& rope : config.ropes) {
    total += of(rope.dimensions(), sizeof(float)) * static_cast<std::uint64_t>(limits.rows + 1);
  }
  return (total + kLine * (8 + 3 * config.ropes.size())).get().value_or(SIZE_MAX);
}

std::size_t Decoder::page_bytes(const KvGroupSpec& group, const Device& device, KvType type,
                                int page_size) {
  const CheckedSize bytes = CheckedSize(device.kv_layer_bytes(group, type, page_size)) *
                            static_cast<std::uint64_t>(group.layers);
  return bytes.get().value_or(SIZE_MAX);
}

// Allocates arrays of device memory until one fails.
class Decoder::Memory {
 public:
  explicit Memory(Decoder& decoder) : decoder_(decoder) {}

  const Status& status() const { return status_; }
  void keep(Status status) {
    if (status_.ok()) status_ = std::move(status);
  }
  // Null for nothing, and after a failure.
  std::byte* bytes(CheckedSize count) {
    const std::size_t size = count.get().value_or(SIZE_MAX);
    if (!status_.ok() || size == 0) return nullptr;
    auto buffer = decoder_.device_.allocate(size);
    if (!buffer) {
      status_ = buffer.status();
      return nullptr;
    }
    decoder_.buffers_.push_back(std::move(*buffer));
    return decoder_.buffers_.back()->data();
  }
  void* array(std::int64_t rows, std::int64_t columns, std::size_t element) {
    return bytes(CheckedSize(static_cast<std::uint64_t>(rows)) *
                 CheckedSize(static_cast<std::uint64_t>(columns)) * element);
  }
  float* floats(std::int64_t rows, std::int64_t columns) {
    return static_cast<float*>(array(rows, columns, sizeof(float)));
  }

 private:
  Decoder& decoder_;
  Status status_;
};

Status Decoder::allocate() {
  Memory memory(*this);
  memory.keep(device_.reserve(work_limits(model_.config, limits_)));
  allocate_activations(memory);
  for (const RopeTable& rope : model_.config.ropes) allocate_rotation(memory, rope);
  for (std::size_t g = 0; g < model_.config.kv_groups.size(); ++g) allocate_pool(memory, g);
  return memory.status();
}

void Decoder::allocate_activations(Memory& memory) {
  const ModelConfig& config = model_.config;
  const Sizes sizes = sizes_of(config);
  const auto element = static_cast<std::size_t>(device_.activation_bytes());
  const int rows = limits_.rows;
  hidden_ = memory.floats(rows, config.width);
  query_ = memory.array(rows, sizes.query, element);
  attention_ = memory.array(rows, sizes.query, element);
  inner_ = memory.array(rows, sizes.inner, element);
  chosen_ = static_cast<std::int32_t*>(memory.array(rows, sizes.experts, sizeof(std::int32_t)));
  expert_weights_ = memory.floats(rows, sizes.experts);
  normed_ = memory.array(limits_.logit_rows, config.width, element);
  logits_ = memory.floats(limits_.logit_rows, config.vocabulary);
}

// Its frequencies, written once, and what a pass makes of them.
void Decoder::allocate_rotation(Memory& memory, const RopeTable& rope) {
  const bool has_long = !rope.long_inverse_frequency.empty();
  RotationArgs table;
  table.dimensions = rope.dimensions();
  const int half = table.dimensions / 2;
  float* frequency = memory.floats(2, half);
  table.frequency[0] = frequency;
  table.frequency[1] = has_long ? frequency + half : frequency;
  table.magnitude[0] = rope.magnitude;
  table.magnitude[1] = has_long ? rope.long_magnitude : rope.magnitude;
  table.cosine = memory.floats(limits_.rows, half);
  table.sine = memory.floats(limits_.rows, half);
  for (const auto* values : {&rope.inverse_frequency, &rope.long_inverse_frequency}) {
    if (!memory.status().ok() || values->empty()) continue;
    memory.keep(device_.write(frequency, values->data(), values->size() * sizeof(float)));
    frequency += half;
  }
  rotations_.push_back(table);
}

void Decoder::allocate_pool(Memory& memory, std::size_t index) {
  const KvGroupSpec& group = model_.config.kv_groups[index];
  KvLayer layer;
  layer.page_bytes = page_bytes(group, device_, limits_.kv_type, limits_.page_size);
  layer.base = memory.bytes(CheckedSize(layer.page_bytes) *
                            static_cast<std::uint64_t>(limits_.page_counts[index]));
  layer.type = limits_.kv_type;
  layer.page_size = limits_.page_size;
  layer.kv_heads = group.kv_heads;
  layer.head_size = group.head_size;
  groups_.push_back(layer);
}

}  // namespace quire::model
