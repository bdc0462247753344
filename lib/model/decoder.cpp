#include "model/decoder.h"

#include <algorithm>
#include <cmath>

#include "base/checked.h"
#include "base/error.h"

namespace quire::model {
namespace {

// Columns of the vocabulary computed by one head operation, so that a step's time limit is seen
// often enough; a multiple of 64.
constexpr std::int64_t kHeadColumns = 16384;

struct Sizes {
  std::int64_t query = 0;    // widest heads * head_size
  std::int64_t inner = 0;    // widest experts used * ff
  std::int64_t experts = 0;  // most experts used
  std::int64_t widest = 0;   // input or output of any Linear but the head
  int heads = 0, head_size = 0;
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
    sizes.head_size = std::max(sizes.head_size, layer.head_size);
  }
  return sizes;
}

}  // namespace

WorkLimits Decoder::work_limits(const ModelConfig& config, const DecoderLimits& limits) {
  const Sizes sizes = sizes_of(config);
  WorkLimits work;
  work.rows = limits.rows;
  work.width = static_cast<int>(sizes.widest);
  work.heads = sizes.heads;
  work.head_size = sizes.head_size;
  work.logit_rows = limits.logit_rows;
  work.vocabulary = config.vocabulary;
  work.context = limits.context;
  return work;
}

std::size_t Decoder::activation_bytes(const ModelConfig& config, const DecoderLimits& limits) {
  const Sizes sizes = sizes_of(config);
  CheckedSize row = CheckedSize(static_cast<std::uint64_t>(config.width)) +
                    CheckedSize(static_cast<std::uint64_t>(2 * sizes.query)) +
                    CheckedSize(static_cast<std::uint64_t>(sizes.inner)) +
                    CheckedSize(static_cast<std::uint64_t>(2 * sizes.experts));
  for (const RopeTable& rope : config.ropes) row += static_cast<std::uint64_t>(rope.dimensions());
  const CheckedSize logit_row =
      static_cast<std::uint64_t>(config.width + std::int64_t{config.vocabulary});
  const CheckedSize total = row * static_cast<std::uint64_t>(limits.rows) +
                            logit_row * static_cast<std::uint64_t>(limits.logit_rows);
  return (total * sizeof(float) + 64 * (8 + 2 * config.ropes.size())).get().value_or(SIZE_MAX);
}

std::size_t Decoder::page_bytes(const ModelConfig& config, const Device& device, KvType type,
                                int page_size) {
  CheckedSize total;
  for (const KvGroupSpec& group : config.kv_groups) {
    total += CheckedSize(device.kv_layer_bytes(group, type, page_size)) *
             static_cast<std::uint64_t>(group.layers);
  }
  return total.get().value_or(SIZE_MAX);
}

Decoder::Decoder(const Model& model, Device& device, const DecoderLimits& limits)
    : model_(model), device_(device), limits_(limits) {}

Result<std::unique_ptr<Decoder>> Decoder::create(const Model& model, Device& device,
                                                 const DecoderLimits& limits) {
  std::unique_ptr<Decoder> decoder(new Decoder(model, device, limits));
  if (Status status = decoder->allocate(); !status.ok()) return status;
  return decoder;
}

Status Decoder::allocate() {
  const ModelConfig& config = model_.config;
  const Sizes sizes = sizes_of(config);
  Status status = device_.reserve(work_limits(config, limits_));
  auto floats = [&](std::int64_t rows, std::int64_t columns) -> float* {
    if (!status.ok() || rows == 0 || columns == 0) return nullptr;
    const auto bytes = (CheckedSize(static_cast<std::uint64_t>(rows)) *
                        CheckedSize(static_cast<std::uint64_t>(columns)) * sizeof(float))
                           .get();
    auto buffer = device_.allocate(bytes.value_or(SIZE_MAX));
    if (!buffer) {
      status = buffer.status();
      return nullptr;
    }
    buffers_.push_back(std::move(*buffer));
    return reinterpret_cast<float*>(buffers_.back()->data());
  };
  const int rows = limits_.rows;
  hidden_ = floats(rows, config.width);
  query_ = floats(rows, sizes.query);
  attention_ = floats(rows, sizes.query);
  inner_ = floats(rows, sizes.inner);
  chosen_ = reinterpret_cast<std::int32_t*>(floats(rows, sizes.experts));
  expert_weights_ = floats(rows, sizes.experts);
  normed_ = floats(limits_.logit_rows, config.width);
  logits_ = floats(limits_.logit_rows, config.vocabulary);
  for (const RopeTable& rope : config.ropes) {
    cosine_.push_back(floats(rows, rope.dimensions() / 2));
    sine_.push_back(floats(rows, rope.dimensions() / 2));
  }
  for (const KvGroupSpec& group : config.kv_groups) {
    KvLayer layer;
    const std::size_t slab = device_.kv_layer_bytes(group, limits_.kv_type, limits_.page_size);
    const auto page = (CheckedSize(slab) * static_cast<std::uint64_t>(group.layers)).get();
    const auto pool = (CheckedSize(page.value_or(SIZE_MAX)) *
                       CheckedSize(static_cast<std::uint64_t>(limits_.page_count)))
                          .get();
    if (!status.ok()) return status;
    auto buffer = device_.allocate(pool.value_or(SIZE_MAX));
    if (!buffer) return buffer.status();
    buffers_.push_back(std::move(*buffer));
    layer.base = buffers_.back()->data();
    layer.page_bytes = *page;
    layer.type = limits_.kv_type;
    layer.page_size = limits_.page_size;
    layer.kv_heads = group.kv_heads;
    layer.head_size = group.head_size;
    groups_.push_back(layer);
  }
  return status;
}

KvLayer Decoder::kv_layer(const LayerSpec& spec) const {
  KvLayer layer = groups_[static_cast<std::size_t>(spec.kv_group)];
  const auto layers = static_cast<std::size_t>(
      model_.config.kv_groups[static_cast<std::size_t>(spec.kv_group)].layers);
  layer.layer_offset = layer.page_bytes / layers * static_cast<std::size_t>(spec.kv_layer);
  return layer;
}

Status Decoder::begin(const Plan& plan, std::vector<RowDraw> draws) {
  const int rows = static_cast<int>(plan.tokens.size());
  if (rows == 0 || rows > limits_.rows) {
    return error(StatusCode::internal, "a pass of {} rows, the decoder has room for 1 to {}", rows,
                 limits_.rows);
  }
  plan_ = &plan;
  rows_ = rows;
  layer_ = 0;
  draws_ = std::move(draws);
  results_.assign(draws_.size(), {});
  sequences_.assign(groups_.size(), {});
  for (const PlanSlice& slice : plan.slices) {
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      sequences_[g].push_back({slice.first_row, slice.tokens, slice.first_position,
                               slice.pages[g].data(), static_cast<int>(slice.pages[g].size())});
    }
  }
  compute_rotations(plan);
  stage_ = plan.copies.empty() ? Stage::embed : Stage::copy_pages;
  return {};
}

// cos(p f) and sin(p f) in float32, as the reference implementations compute them.
void Decoder::compute_rotations(const Plan& plan) {
  const ModelConfig& config = model_.config;
  for (std::size_t t = 0; t < config.ropes.size(); ++t) {
    const RopeTable& rope = config.ropes[t];
    const std::size_t half = rope.inverse_frequency.size();
    for (int row = 0; row < rows_; ++row) {
      const bool use_long = plan.rope_choices[row] == 1 && !rope.long_inverse_frequency.empty();
      const std::vector<float>& frequency =
          use_long ? rope.long_inverse_frequency : rope.inverse_frequency;
      const float magnitude = use_long ? rope.long_magnitude : rope.magnitude;
      const float position = static_cast<float>(plan.positions[row]);
      float* cosine = cosine_[t] + static_cast<std::size_t>(row) * half;
      float* sine = sine_[t] + static_cast<std::size_t>(row) * half;
      for (std::size_t i = 0; i < half; ++i) {
        const float angle = position * frequency[i];
        cosine[i] = std::cos(angle) * magnitude;
        sine[i] = std::sin(angle) * magnitude;
      }
    }
  }
}

RopeRows Decoder::rope_rows(const LayerSpec& spec) const {
  if (spec.rope < 0) return {};
  const auto t = static_cast<std::size_t>(spec.rope);
  return {model_.config.ropes[t].dimensions(), cosine_[t], sine_[t]};
}

Status Decoder::run_operation() {
  const auto layers = static_cast<int>(model_.layers.size());
  Status status;
  switch (stage_) {
    case Stage::idle:
      return Status(StatusCode::internal, "no pass has begun");
    case Stage::copy_pages:
      status = device_.ops().copy_pages(device_, {plan_->copies, groups_, model_.config.kv_groups});
      stage_ = Stage::embed;
      break;
    case Stage::embed:
      status = device_.ops().embed(device_, {plan_->tokens, model_.embedding.weight.get(),
                                             model_.config.embedding_scale, hidden_});
      stage_ = Stage::attention_input;
      break;
    case Stage::attention_input:
      status = run_attention_input();
      stage_ = Stage::paged_attention;
      break;
    case Stage::paged_attention:
      status = run_paged_attention();
      stage_ = Stage::attention_output;
      break;
    case Stage::attention_output:
      status = run_attention_output();
      stage_ = Stage::mlp_input;
      break;
    case Stage::mlp_input:
      status = run_mlp_input();
      stage_ = Stage::mlp_output;
      break;
    case Stage::mlp_output:
      status = run_mlp_output();
      stage_ = ++layer_ < layers ? Stage::attention_input : Stage::final_norm;
      if (stage_ == Stage::final_norm) next_logit_block(0);
      break;
    case Stage::final_norm:
      status = run_final_norm();
      head_column_ = 0;
      stage_ = Stage::head;
      break;
    case Stage::head:
      status = run_head();
      if (head_column_ == model_.config.vocabulary) stage_ = Stage::sample;
      break;
    case Stage::sample:
      status = run_sample();
      next_logit_block(end_draw_);
      break;
  }
  if (!status.ok()) stage_ = Stage::idle;
  return status;
}

Status Decoder::run_attention_input() {
  const LayerSpec& spec = model_.config.layers[layer_];
  const LayerWeights& weights = model_.layers[layer_];
  const float epsilon = model_.config.epsilon;
  AttentionInputArgs args;
  args.rows = rows_;
  args.width = model_.config.width;
  args.hidden = hidden_;
  args.norm = {weights.attention_norm, epsilon};
  args.q = &weights.q;
  args.k = &weights.k;
  args.v = &weights.v;
  args.heads = spec.heads;
  args.qk_norm = spec.qk_norm;
  args.q_norm = {weights.q_norm, epsilon};
  args.k_norm = {weights.k_norm, epsilon};
  args.rope = rope_rows(spec);
  args.query = query_;
  args.kv = kv_layer(spec);
  args.sequences = sequences_[spec.kv_group];
  return device_.ops().attention_input(device_, args);
}

Status Decoder::run_paged_attention() {
  const LayerSpec& spec = model_.config.layers[layer_];
  PagedAttentionArgs args;
  args.sequences = sequences_[spec.kv_group];
  args.heads = spec.heads;
  args.query = query_;
  args.kv = kv_layer(spec);
  args.window = spec.window;
  args.scale = spec.query_scale;
  args.soft_cap = spec.attention_soft_cap;
  args.sinks = model_.layers[layer_].sinks;
  args.output = attention_;
  return device_.ops().paged_attention(device_, args);
}

Status Decoder::run_attention_output() {
  const LayerWeights& weights = model_.layers[layer_];
  return device_.ops().attention_output(device_,
                                        {rows_,
                                         model_.config.width,
                                         attention_,
                                         &weights.o,
                                         {weights.post_attention_norm, model_.config.epsilon},
                                         model_.config.residual_scale,
                                         hidden_});
}

Status Decoder::run_mlp_input() {
  const LayerWeights& weights = model_.layers[layer_];
  return device_.ops().mlp_input(device_, {rows_,
                                           model_.config.width,
                                           hidden_,
                                           {weights.mlp_norm, model_.config.epsilon},
                                           &weights.mlp,
                                           inner_,
                                           chosen_,
                                           expert_weights_});
}

Status Decoder::run_mlp_output() {
  const LayerWeights& weights = model_.layers[layer_];
  return device_.ops().mlp_output(device_, {rows_,
                                            model_.config.width,
                                            inner_,
                                            chosen_,
                                            expert_weights_,
                                            &weights.mlp,
                                            {weights.post_mlp_norm, model_.config.epsilon},
                                            model_.config.residual_scale,
                                            hidden_});
}

// Takes the next draws whose rows fit the logits buffer; the pass is over when there are none.
void Decoder::next_logit_block(std::size_t first_draw) {
  first_draw_ = end_draw_ = first_draw;
  block_rows_.clear();
  while (end_draw_ < draws_.size()) {
    const int row = draws_[end_draw_].row;
    if (block_rows_.empty() || block_rows_.back() != row) {
      if (static_cast<int>(block_rows_.size()) == limits_.logit_rows) break;
      block_rows_.push_back(row);
    }
    ++end_draw_;
  }
  stage_ = block_rows_.empty() ? Stage::idle : Stage::final_norm;
}

Status Decoder::run_final_norm() {
  return device_.ops().final_norm(device_, {block_rows_,
                                            model_.config.width,
                                            hidden_,
                                            {model_.final_norm, model_.config.epsilon},
                                            normed_});
}

Status Decoder::run_head() {
  HeadArgs args;
  args.rows = static_cast<int>(block_rows_.size());
  args.width = model_.config.width;
  args.input = normed_;
  args.head = model_.head;
  args.first = head_column_;
  args.count = std::min<std::int64_t>(kHeadColumns, model_.config.vocabulary - head_column_);
  args.scale = model_.config.logit_scale;
  args.soft_cap = model_.config.logit_soft_cap;
  args.logits = logits_;
  head_column_ += args.count;
  return device_.ops().head(device_, args);
}

Status Decoder::run_sample() {
  std::vector<DrawArgs> args;
  std::size_t block_row = 0;
  for (std::size_t i = first_draw_; i < end_draw_; ++i) {
    while (block_rows_[block_row] != draws_[i].row) ++block_row;
    args.push_back(draws_[i].args);
    args.back().vocabulary = model_.config.vocabulary;
    args.back().logits = logits_ + block_row * static_cast<std::size_t>(model_.config.vocabulary);
  }
  const std::span<DrawResult> results(results_.data() + first_draw_, args.size());
  return device_.ops().sample(device_, {args, results});
}

}  // namespace quire::model
