#include "sampling/queued_draws.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/checked.h"
#include "sampling/draw_tokens.h"
#include "sampling/penalties.h"
#include "sampling/philox.h"

namespace quire::cuda {
namespace {

// Words of the lists of a draw that changes logits; at most these.
std::size_t most_words(const DrawArgs& args) {
  const DrawParams& params = args.params;
  return args.output.size() + args.prompt.size() + params.banned.size() + params.allowed.size() +
         2 * params.bias.size();
}

}  // namespace

bool needs_changed_row(const DrawArgs& args) {
  return args.draw && sampling::changes_logits(args.params);
}

Status QueuedDraws::allocate(int ordinal, int rows) {
  ordinal_ = ordinal;
  const auto count = static_cast<std::size_t>(rows);
  const std::size_t draw_bytes =
      round_up<std::size_t>(count * sizeof(DeviceDraw), alignof(std::max_align_t));
  auto host = pinned_bytes(draw_bytes + count * sizeof(DeviceDrawResult));
  if (!host) return host.status();
  host_ = std::move(*host);
  draws_ = reinterpret_cast<DeviceDraw*>(host_.get());
  results_ = reinterpret_cast<DeviceDrawResult*>(host_.get() + draw_bytes);
  auto computed = create_event();
  if (!computed) return computed.status();
  computed_ = std::move(*computed);
  return {};
}

Status QueuedDraws::start(const Launch& launch, std::span<const DrawArgs> draws, int vocabulary,
                          const ChangedRows& changed) {
  std::size_t words = 0;
  for (const DrawArgs& draw : draws) {
    if (needs_changed_row(draw)) words += most_words(draw);
  }
  if (Status s = make_room_for_words(words); !s.ok()) return s;
  words_ = 0;
  std::size_t row = 0;
  for (std::size_t i = 0; i < draws.size(); ++i) {
    draws_[i] = describe(draws[i]);
    if (!needs_changed_row(draws[i])) continue;
    draws_[i].changed = changed.logits + row;
    draws_[i].counts = changed.counts + row;
    row += changed.stride;
  }
  Status status;
  if (words_ > 0) {
    status = status_of(
        cudaMemcpyAsync(device_words_->data(), host_words_.get(), words_ * sizeof(std::int32_t),
                        cudaMemcpyHostToDevice, launch.stream),
        "copying what is drawn");
  }
  if (status.ok()) {
    const auto* lists =
        device_words_ ? reinterpret_cast<const std::int32_t*>(device_words_->data()) : nullptr;
    status =
        draw_tokens(launch, draws_, lists, static_cast<int>(draws.size()), vocabulary, results_);
  }
  if (!status.ok()) return status;
  return status_of(cudaEventRecord(computed_.get(), launch.stream), "drawing tokens");
}

Status QueuedDraws::wait() const {
  return status_of(cudaEventSynchronize(computed_.get()), "drawing tokens");
}

// All but its changed row.
DeviceDraw QueuedDraws::describe(const DrawArgs& args) {
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
  if (!needs_changed_row(args)) return draw;

  draw.repetition_penalty = params.repetition_penalty;
  draw.frequency_penalty = params.frequency_penalty;
  draw.presence_penalty = params.presence_penalty;
  if (sampling::has_penalties(params)) {
    add_words(args.output, draw.output, draw.output_count);
    if (params.repetition_penalty != 1) add_words(args.prompt, draw.prompt, draw.prompt_count);
  }
  add_words(params.banned, draw.banned, draw.banned_count);
  add_words(params.allowed, draw.allowed, draw.allowed_count);
  add_words({}, draw.bias, draw.bias_count);
  for (const auto& [id, bias] : params.bias) {
    std::int32_t place = 0, count = 0;
    const std::int32_t pair[] = {id, std::bit_cast<std::int32_t>(bias)};
    add_words(pair, place, count);
    ++draw.bias_count;
  }
  return draw;
}

void QueuedDraws::add_words(std::span<const std::int32_t> words, std::int32_t& first,
                            std::int32_t& count) {
  first = static_cast<std::int32_t>(words_);
  count = static_cast<std::int32_t>(words.size());
  std::copy(words.begin(), words.end(),
            reinterpret_cast<std::int32_t*>(host_words_.get()) + words_);
  words_ += words.size();
}

Status QueuedDraws::make_room_for_words(std::size_t words) {
  if (words <= word_capacity_) return {};
  word_capacity_ = 0;
  const std::size_t bytes = 2 * words * sizeof(std::int32_t);
  auto host = pinned_bytes(bytes);
  if (!host) return host.status();
  auto device = CudaBuffer::create(ordinal_, bytes);
  if (!device) return device.status();
  host_words_ = std::move(*host);
  device_words_ = std::move(*device);
  word_capacity_ = 2 * words;
  return {};
}

}  // namespace quire::cuda
