#include "model/decoder.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace quire::model {

Decoder::Decoder(const Model& model, Device& device, const DecoderLimits& limits)
    : model_(model),
      device_(device),
      limits_(limits),
      head_columns_(device.head_block(model.config.vocabulary).columns) {}

Result<std::unique_ptr<Decoder>> Decoder::create(const Model& model, Device& device,
                                                 const DecoderLimits& limits) {
  std::unique_ptr<Decoder> decoder(new Decoder(model, device, limits));
  if (Status status = decoder->allocate(); !status.ok()) return status;
  return decoder;
}

Decoder::~Decoder() {
  if (has_operations()) device_.leave_pass();
}

KvLayer Decoder::kv_layer(const LayerSpec& spec) const {
  KvLayer layer = groups_[static_cast<std::size_t>(spec.kv_group)];
  const auto layers = static_cast<std::size_t>(
      model_.config.kv_groups[static_cast<std::size_t>(spec.kv_group)].layers);
  layer.layer_offset = layer.page_bytes / layers * static_cast<std::size_t>(spec.kv_layer);
  return layer;
}

Status Decoder::begin_ahead(const Plan& plan, std::vector<RowDraw> draws) {
  if (has_operations() || own_.number == 0 || earlier_.number != 0) {
    return Status(StatusCode::internal, "a pass begun ahead of one whose draws are not awaited");
  }
  earlier_ = std::exchange(own_, {});
  return begin(plan, std::move(draws), Awaits::yes);
}

Status Decoder::begin(const Plan& plan, std::vector<RowDraw> draws, Awaits awaits) {
  const int rows = static_cast<int>(plan.tokens.size());
  if (rows == 0 || rows > limits_.rows) {
    return error(StatusCode::internal, "a pass of {} rows, the decoder has room for 1 to {}", rows,
                 limits_.rows);
  }
  plan_ = &plan;
  rows_ = rows;
  layer_ = 0;
  draws_ = std::move(draws);
  own_ = {0, std::vector<DrawResult>(draws_.size())};
  awaits_ = awaits;
  sequences_.assign(groups_.size(), {});
  for (const PlanSlice& slice : plan.slices) {
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      sequences_[g].push_back({slice.first_row, slice.tokens, slice.first_position,
                               plan.page_table(slice, g).data(), slice.page_count});
    }
  }
  logit_rows_.clear();
  for (const RowDraw& draw : draws_) {
    if (logit_rows_.empty() || logit_rows_.back() != draw.row) logit_rows_.push_back(draw.row);
  }
  stage_ = Stage::begin_pass;
  return {};
}

RopeRows Decoder::rope_rows(const LayerSpec& spec) const {
  if (spec.rope < 0) return {};
  const auto t = static_cast<std::size_t>(spec.rope);
  return {rotations_[t].dimensions, rotations_[t].cosine, rotations_[t].sine};
}

Status Decoder::run_operation() {
  const auto layers = static_cast<int>(model_.layers.size());
  Status status;
  switch (stage_) {
    case Stage::idle:
      return Status(StatusCode::internal, "no pass has begun");
    case Stage::begin_pass:
      status = run_begin_pass();
      stage_ = plan_->copies.empty() ? Stage::embed : Stage::copy_pages;
      break;
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
      if (own_.number != 0) stage_ = Stage::idle;
      break;
    case Stage::end_pass:
      status = device_.ops().end_pass(device_, {});
      stage_ = Stage::idle;
      break;
  }
  if (!status.ok()) abandon_last();
  return status;
}

Status Decoder::run_begin_pass() {
  BeginPassArgs args;
  args.tokens = plan_->tokens;
  args.positions = plan_->positions;
  args.rope_choices = plan_->rope_choices;
  args.token_draws = plan_->token_draws;
  args.awaited = earlier_.number;
  args.rotations = rotations_;
  args.groups = sequences_;
  args.logit_rows = logit_rows_;
  args.copies = plan_->copies;
  return device_.ops().begin_pass(device_, args);
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
  args.group = spec.kv_group;
  return device_.ops().attention_input(device_, args);
}

Status Decoder::run_paged_attention() {
  const LayerSpec& spec = model_.config.layers[layer_];
  PagedAttentionArgs args;
  args.sequences = sequences_[spec.kv_group];
  args.group = spec.kv_group;
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

// Takes the next draws whose rows fit the logits buffer; the pass ends when there are none.
void Decoder::next_logit_block(std::size_t first_draw) {
  first_draw_ = end_draw_ = first_draw;
  first_logit_row_ = first_draw == 0 ? 0 : end_logit_row_;
  end_logit_row_ =
      std::min(first_logit_row_ + static_cast<std::size_t>(limits_.logit_rows), logit_rows_.size());
  if (first_logit_row_ == end_logit_row_) {
    stage_ = Stage::end_pass;
    return;
  }
  const std::int32_t last = logit_rows_[end_logit_row_ - 1];
  while (end_draw_ < draws_.size() && draws_[end_draw_].row <= last) ++end_draw_;
  stage_ = Stage::final_norm;
}

Status Decoder::run_final_norm() {
  FinalNormArgs args;
  args.rows = std::span<const std::int32_t>(logit_rows_)
                  .subspan(first_logit_row_, end_logit_row_ - first_logit_row_);
  args.first = static_cast<int>(first_logit_row_);
  args.width = model_.config.width;
  args.hidden = hidden_;
  args.norm = {model_.final_norm, model_.config.epsilon};
  args.output = normed_;
  return device_.ops().final_norm(device_, args);
}

Status Decoder::run_head() {
  HeadArgs args;
  args.rows = static_cast<int>(end_logit_row_ - first_logit_row_);
  args.width = model_.config.width;
  args.input = normed_;
  args.head = model_.head;
  args.first = head_column_;
  args.count = std::min(head_columns_, model_.config.vocabulary - head_column_);
  args.scale = model_.config.logit_scale;
  args.soft_cap = model_.config.logit_soft_cap;
  args.logits = logits_;
  head_column_ += args.count;
  return device_.ops().head(device_, args);
}

Status Decoder::run_sample() {
  std::vector<DrawArgs> args;
  std::size_t row = first_logit_row_;
  for (std::size_t i = first_draw_; i < end_draw_; ++i) {
    while (logit_rows_[row] != draws_[i].row) ++row;
    args.push_back(draws_[i].args);
    args.back().vocabulary = model_.config.vocabulary;
    args.back().logits =
        logits_ + (row - first_logit_row_) * static_cast<std::size_t>(model_.config.vocabulary);
  }
  const std::span<DrawResult> results(own_.results.data() + first_draw_, args.size());
  const bool all = args.size() == draws_.size() && awaits_ == Awaits::yes;
  return device_.ops().sample(device_, {args, results, all ? &own_.number : nullptr});
}

Status Decoder::await(bool wait, DrawsState& state, std::vector<DrawResult>& results) {
  AwaitedDraws& first = earlier_.number != 0 ? earlier_ : own_;
  Status status = device_.ops().await_draws(device_, {first.number, first.results, wait, &state});
  if (status.ok() && state == DrawsState::computing) return {};
  results = std::move(first.results);
  first = {};
  if (!status.ok() || state == DrawsState::lost) abandon();
  return status;
}

void Decoder::abandon_last() {
  stage_ = Stage::idle;
  own_ = {};
}

void Decoder::abandon() {
  abandon_last();
  earlier_ = {};
}

}  // namespace quire::model
