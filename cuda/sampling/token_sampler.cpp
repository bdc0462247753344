#include "sampling/token_sampler.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/checked.h"
#include "base/error.h"
#include "sampling/draw_tokens.h"
#include "sampling/penalties.h"
#include "sampling/philox.h"

namespace quire::cuda {
namespace {

// Draws with penalties or bias of which changed logits and counts are held at once.
constexpr int kMostChanged = 64;

// Bytes of each part of the device memory; multiples of 256.
struct Parts {
  std::size_t logits = 0, counts = 0;

  Parts(int rows, int vocabulary) {
    const auto r = static_cast<std::uint64_t>(std::clamp(rows, 1, kMostChanged));
    const CheckedSize row = CheckedSize(row_stride(vocabulary)) * sizeof(float);
    const std::size_t most = (row * r).get().value_or(SIZE_MAX / 8);
    logits = counts = round_up<std::size_t>(std::min(most, SIZE_MAX / 8), 256);
  }
  std::size_t total() const { return logits + counts; }

  // Logits from one row to the next: whole vectors of four.
  static std::size_t row_stride(int vocabulary) {
    return round_up<std::size_t>(static_cast<std::size_t>(std::max(vocabulary, 1)), 4);
  }
};

bool changes(const DrawArgs& args) {
  return args.draw && sampling::changes_logits(args.params);
}

bool has_penalties(const DrawParams& params) {
  return params.repetition_penalty != 1 || params.frequency_penalty != 0 ||
         params.presence_penalty != 0;
}

// Words of the lists of a draw that changes logits; at most these.
std::size_t most_words(const DrawArgs& args) {
  const DrawParams& params = args.params;
  return args.output.size() + args.prompt.size() + params.banned.size() + params.allowed.size() +
         2 * params.bias.size();
}

// Waits for it.
Status to_host(const Launch& launch, void* to, const void* from, std::size_t bytes) {
  Status status = status_of(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, launch.stream),
                            "copying drawn tokens");
  if (!status.ok()) return status;
  return status_of(cudaStreamSynchronize(launch.stream), "drawing tokens");
}

}  // namespace

std::size_t TokenSampler::device_bytes(int rows, int vocabulary) {
  return Parts(rows, vocabulary).total();
}

Result<std::unique_ptr<TokenSampler>> TokenSampler::create(int rows, int vocabulary) {
  std::unique_ptr<TokenSampler> sampler(new TokenSampler(std::max(rows, 1), vocabulary));
  if (Status status = sampler->allocate(); !status.ok()) return status;
  return sampler;
}

Status TokenSampler::allocate() {
  const Parts parts(rows_, vocabulary_);
  void* memory = nullptr;
  if (Status s = status_of(cudaMalloc(&memory, parts.total()), "cudaMalloc of sampling memory");
      !s.ok()) {
    return s;
  }
  device_ = static_cast<std::byte*>(memory);
  changed_ = reinterpret_cast<float*>(device_);
  counts_ = reinterpret_cast<std::int32_t*>(device_ + parts.logits);
  const std::size_t draw_bytes = round_up<std::size_t>(
      static_cast<std::size_t>(rows_) * sizeof(DeviceDraw), alignof(std::max_align_t));
  auto host = pinned_bytes(draw_bytes + static_cast<std::size_t>(rows_) * sizeof(DeviceDrawResult));
  if (!host) return host.status();
  host_ = std::move(*host);
  draws_ = reinterpret_cast<DeviceDraw*>(host_.get());
  results_ = reinterpret_cast<DeviceDrawResult*>(host_.get() + draw_bytes);
  const auto most = prepare_draws();
  if (!most) return most.status();
  most_vocabulary_ = *most;
  if (Status s = status_of(cudaMemset(counts_, 0, parts.counts), "cudaMemset of token counts");
      !s.ok()) {
    return s;
  }
  // Streams that do not wait for the default one must see the zeros too.
  return status_of(cudaStreamSynchronize(nullptr), "cudaMemset of token counts");
}

TokenSampler::~TokenSampler() {
  cudaFree(device_);
  cudaFree(device_words_);
}

bool TokenSampler::on_device(const DrawArgs& args) const {
  return vocabulary_ <= most_vocabulary_ && args.logprobs <= kMostTopLogprobs &&
         args.params.bias.size() <= kMostBias && args.vocabulary == vocabulary_;
}

DeviceDraw TokenSampler::describe(const DrawArgs& args, int slot) {
  const DrawParams& params = args.params;
  DeviceDraw draw;
  draw.raw = args.logits;
  draw.temperature = params.temperature;
  draw.with_min_p = params.min_p > 0;
  if (draw.with_min_p)
    draw.min_p_shift = double{params.temperature} * std::log(double{params.min_p});
  draw.top_p = params.top_p;
  draw.top_k = params.top_k;
  draw.draw = args.draw;
  draw.given = args.given;
  draw.top_logprobs = args.logprobs;
  draw.uniform = sampling::uniform(args.seed, static_cast<std::uint32_t>(args.choice),
                                   static_cast<std::uint32_t>(args.position));
  if (!changes(args)) return draw;

  const std::size_t row = static_cast<std::size_t>(slot) * Parts::row_stride(vocabulary_);
  draw.changed = changed_ + row;
  draw.counts = counts_ + row;
  draw.repetition_penalty = params.repetition_penalty;
  draw.frequency_penalty = params.frequency_penalty;
  draw.presence_penalty = params.presence_penalty;
  const auto begin = [&](std::size_t size, std::int32_t& first, std::int32_t& count) {
    first = static_cast<std::int32_t>(words_);
    count = static_cast<std::int32_t>(size);
  };
  const auto add = [&](std::span<const std::int32_t> ids, std::int32_t& first,
                       std::int32_t& count) {
    begin(ids.size(), first, count);
    std::copy(ids.begin(), ids.end(), host_words() + words_);
    words_ += ids.size();
  };
  if (has_penalties(params)) {
    add(args.output, draw.output, draw.output_count);
    if (params.repetition_penalty != 1) add(args.prompt, draw.prompt, draw.prompt_count);
  }
  add(params.banned, draw.banned, draw.banned_count);
  add(params.allowed, draw.allowed, draw.allowed_count);
  begin(params.bias.size(), draw.bias, draw.bias_count);
  for (const auto& [id, bias] : params.bias) {
    host_words()[words_++] = id;
    host_words()[words_++] = std::bit_cast<std::int32_t>(bias);
  }
  return draw;
}

Status TokenSampler::run(const Launch& launch, std::span<const DrawArgs> draws,
                         std::span<DrawResult> results) {
  if (draws.size() != results.size()) {
    return error(StatusCode::internal, "sample: {} draws, {} results", draws.size(),
                 results.size());
  }
  for (std::size_t first = 0; first < draws.size();) {
    const std::size_t count = next_batch(draws.subspan(first));
    if (Status s = run_batch(launch, draws.subspan(first, count), results.subspan(first, count));
        !s.ok()) {
      return s;
    }
    first += count;
  }
  return {};
}

// How many of the draws there is room for.
std::size_t TokenSampler::next_batch(std::span<const DrawArgs> draws) const {
  const std::size_t most = std::min(draws.size(), static_cast<std::size_t>(rows_));
  int changed = 0;
  for (std::size_t i = 0; i < most; ++i) {
    if (changes(draws[i]) && ++changed > kMostChanged) return i;
  }
  return most;
}

Status TokenSampler::run_batch(const Launch& launch, std::span<const DrawArgs> draws,
                               std::span<DrawResult> results) {
  std::vector<std::size_t> owners;  // of the device's draws
  std::size_t words = 0;
  for (std::size_t i = 0; i < draws.size(); ++i) {
    if (!on_device(draws[i])) continue;
    owners.push_back(i);
    if (changes(draws[i])) words += most_words(draws[i]);
  }
  std::vector<bool> drawn(draws.size(), false);
  if (!owners.empty()) {
    if (Status s = make_room_for_words(words); !s.ok()) return s;
    words_ = 0;
    int slot = 0;
    for (std::size_t d = 0; d < owners.size(); ++d) {
      const DrawArgs& draw = draws[owners[d]];
      draws_[d] = describe(draw, slot);
      if (changes(draw)) ++slot;
    }
    if (Status s = draw_on_device(launch, static_cast<int>(owners.size())); !s.ok()) return s;
    for (std::size_t d = 0; d < owners.size(); ++d) {
      if (results_[d].outcome == DrawOutcome::too_wide) continue;
      take_result(draws[owners[d]], results_[d], results[owners[d]]);
      drawn[owners[d]] = true;
    }
  }
  for (std::size_t i = 0; i < draws.size(); ++i) {
    if (drawn[i]) continue;
    if (Status s = draw_on_host(launch, draws[i], results[i]); !s.ok()) return s;
  }
  return {};
}

Status TokenSampler::make_room_for_words(std::size_t words) {
  if (words <= word_capacity_) return {};
  cudaFree(device_words_);
  device_words_ = nullptr;
  host_words_.reset();
  word_capacity_ = 0;
  const std::size_t bytes = 2 * words * sizeof(std::int32_t);
  auto host = pinned_bytes(bytes);
  if (!host) return host.status();
  void* memory = nullptr;
  Status status = status_of(cudaMalloc(&memory, bytes), "cudaMalloc");
  if (!status.ok()) return status;
  host_words_ = std::move(*host);
  device_words_ = static_cast<std::int32_t*>(memory);
  word_capacity_ = 2 * words;
  return {};
}

Status TokenSampler::draw_on_device(const Launch& launch, int count) {
  Status status;
  if (words_ > 0) {
    status = status_of(cudaMemcpyAsync(device_words_, host_words(), words_ * sizeof(std::int32_t),
                                       cudaMemcpyHostToDevice, launch.stream),
                       "copying what is drawn");
  }
  if (status.ok()) {
    status = draw_tokens(launch, draws_, device_words_, count, vocabulary_, results_);
  }
  if (!status.ok()) return status;
  return status_of(cudaStreamSynchronize(launch.stream), "drawing tokens");
}

void TokenSampler::take_result(const DrawArgs& args, const DeviceDrawResult& from,
                               DrawResult& to) const {
  to = DrawResult();
  to.token = from.token;
  if (from.outcome == DrawOutcome::no_finite_logit) {
    to.status =
        error(StatusCode::internal, "none of the {} logits is a finite number", vocabulary_);
    return;
  }
  if (from.outcome == DrawOutcome::all_excluded) {
    to.status = error(StatusCode::invalid_argument,
                      "{} banned and {} allowed tokens leave none of the {} that could be chosen",
                      args.params.banned.size(), args.params.allowed.size(), vocabulary_);
    return;
  }
  if (args.logprobs < 0) return;
  to.logprob = from.logprob;
  for (std::int32_t i = 0; i < from.top_count; ++i) {
    to.top.emplace_back(from.top_ids[i], from.top_logprobs[i]);
  }
}

Status TokenSampler::draw_on_host(const Launch& launch, const DrawArgs& args, DrawResult& result) {
  host_row_.resize(static_cast<std::size_t>(args.vocabulary));
  Status status = to_host(launch, host_row_.data(), args.logits, host_row_.size() * sizeof(float));
  if (!status.ok()) return status;
  DrawArgs on_host = args;
  on_host.logits = host_row_.data();
  result = draw_token(on_host, host_scratch_);
  return {};
}

}  // namespace quire::cuda
