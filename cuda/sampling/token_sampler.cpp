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

Result<std::unique_ptr<TokenSampler>> TokenSampler::create(int ordinal, int rows, int vocabulary) {
  std::unique_ptr<TokenSampler> sampler(new TokenSampler(ordinal, std::max(rows, 1), vocabulary));
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
  for (Slot& slot : slots_) {
    auto host =
        pinned_bytes(draw_bytes + static_cast<std::size_t>(rows_) * sizeof(DeviceDrawResult));
    if (!host) return host.status();
    slot.host = std::move(*host);
    slot.draws = reinterpret_cast<DeviceDraw*>(slot.host.get());
    slot.results = reinterpret_cast<DeviceDrawResult*>(slot.host.get() + draw_bytes);
    auto computed = create_event();
    if (!computed) return computed.status();
    slot.computed = std::move(*computed);
  }
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
}

bool TokenSampler::on_device(const DrawArgs& args) const {
  return vocabulary_ <= most_vocabulary_ && args.logprobs <= kMostTopLogprobs &&
         args.params.bias.size() <= kMostBias && args.vocabulary == vocabulary_;
}

DeviceDraw TokenSampler::describe(const DrawArgs& args, Slot& slot, int changed) {
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

  const std::size_t row = static_cast<std::size_t>(changed) * Parts::row_stride(vocabulary_);
  draw.changed = changed_ + row;
  draw.counts = counts_ + row;
  draw.repetition_penalty = params.repetition_penalty;
  draw.frequency_penalty = params.frequency_penalty;
  draw.presence_penalty = params.presence_penalty;
  const auto begin = [&](std::size_t size, std::int32_t& first, std::int32_t& count) {
    first = static_cast<std::int32_t>(slot.words);
    count = static_cast<std::int32_t>(size);
  };
  const auto add = [&](std::span<const std::int32_t> ids, std::int32_t& first,
                       std::int32_t& count) {
    begin(ids.size(), first, count);
    std::copy(ids.begin(), ids.end(), slot.words_on_host() + slot.words);
    slot.words += ids.size();
  };
  if (sampling::has_penalties(params)) {
    add(args.output, draw.output, draw.output_count);
    if (params.repetition_penalty != 1) add(args.prompt, draw.prompt, draw.prompt_count);
  }
  add(params.banned, draw.banned, draw.banned_count);
  add(params.allowed, draw.allowed, draw.allowed_count);
  begin(params.bias.size(), draw.bias, draw.bias_count);
  for (const auto& [id, bias] : params.bias) {
    slot.words_on_host()[slot.words++] = id;
    slot.words_on_host()[slot.words++] = std::bit_cast<std::int32_t>(bias);
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

Result<TokenSampler::Slot*> TokenSampler::free_slot() {
  for (Slot& slot : slots_) {
    if (slot.number != 0) continue;
    Status status = status_of(cudaEventSynchronize(slot.computed.get()), "earlier draws");
    if (!status.ok()) return status;
    return &slot;
  }
  return nullptr;
}

Status TokenSampler::describe_all(Slot& slot, std::span<const DrawArgs> args) {
  std::size_t words = 0;
  for (const DrawArgs& draw : args) {
    if (changes(draw)) words += most_words(draw);
  }
  if (Status s = make_room_for_words(slot, words); !s.ok()) return s;
  slot.words = 0;
  int changed = 0;
  for (std::size_t i = 0; i < args.size(); ++i) {
    slot.draws[i] = describe(args[i], slot, changed);
    if (changes(args[i])) ++changed;
  }
  return {};
}

Status TokenSampler::run_batch(const Launch& launch, std::span<const DrawArgs> draws,
                               std::span<DrawResult> results) {
  std::vector<std::size_t> owners;  // of the device's draws
  std::vector<DrawArgs> described;
  for (std::size_t i = 0; i < draws.size(); ++i) {
    if (!on_device(draws[i])) continue;
    owners.push_back(i);
    described.push_back(draws[i]);
  }
  std::vector<bool> drawn(draws.size(), false);
  if (!owners.empty()) {
    const Result<Slot*> slot = free_slot();
    if (!slot) return slot.status();
    if (*slot == nullptr) return Status(StatusCode::internal, "sample: three passes' draws");
    Status status = describe_all(**slot, described);
    if (status.ok()) status = draw_on_device(launch, **slot, static_cast<int>(owners.size()));
    if (status.ok()) {
      status = status_of(cudaEventSynchronize((*slot)->computed.get()), "drawing tokens");
    }
    if (!status.ok()) return status;
    for (std::size_t d = 0; d < owners.size(); ++d) {
      const DeviceDrawResult& result = (*slot)->results[d];
      if (result.outcome == DrawOutcome::too_wide) continue;
      take_result(draws[owners[d]], result, results[owners[d]]);
      drawn[owners[d]] = true;
    }
  }
  for (std::size_t i = 0; i < draws.size(); ++i) {
    if (drawn[i]) continue;
    if (Status s = draw_on_host(launch, draws[i], results[i]); !s.ok()) return s;
  }
  return {};
}

Result<std::uint64_t> TokenSampler::queue(const Launch& launch, std::span<const DrawArgs> draws) {
  const bool suits = !draws.empty() && next_batch(draws) == draws.size() &&
                     std::all_of(draws.begin(), draws.end(),
                                 [&](const DrawArgs& draw) { return on_device(draw); });
  if (!suits) return 0;
  const Result<Slot*> found = free_slot();
  if (!found) return found.status();
  if (*found == nullptr) return 0;
  Slot& slot = **found;
  slot.described.assign(draws.begin(), draws.end());
  Status status = describe_all(slot, draws);
  if (status.ok()) status = draw_on_device(launch, slot, static_cast<int>(draws.size()));
  if (!status.ok()) return status;
  return slot.number = ++last_number_;
}

Result<DrawsState> TokenSampler::collect(std::uint64_t number, std::span<DrawResult> results,
                                         bool wait) {
  for (Slot& slot : slots_) {
    if (number == 0 || slot.number != number || slot.described.size() != results.size()) continue;
    const cudaError_t code =
        wait ? cudaEventSynchronize(slot.computed.get()) : cudaEventQuery(slot.computed.get());
    if (code == cudaErrorNotReady) return DrawsState::computing;
    slot.number = 0;
    if (Status status = status_of(code, "drawing tokens"); !status.ok()) return status;
    for (std::size_t i = 0; i < results.size(); ++i) {
      if (slot.results[i].outcome == DrawOutcome::too_wide) return DrawsState::lost;
      take_result(slot.described[i], slot.results[i], results[i]);
    }
    return DrawsState::ready;
  }
  return error(StatusCode::internal, "await_draws: no {} draws of number {}", results.size(),
               number);
}

const DeviceDrawResult* TokenSampler::results_of(std::uint64_t number) const {
  for (const Slot& slot : slots_) {
    if (number != 0 && slot.number == number) return slot.results;
  }
  return nullptr;
}

void TokenSampler::forget() {
  for (Slot& slot : slots_) slot.number = 0;
}

Status TokenSampler::make_room_for_words(Slot& slot, std::size_t words) {
  if (words <= slot.word_capacity) return {};
  slot.word_capacity = 0;
  const std::size_t bytes = 2 * words * sizeof(std::int32_t);
  auto host = pinned_bytes(bytes);
  if (!host) return host.status();
  auto device = CudaBuffer::create(ordinal_, bytes);
  if (!device) return device.status();
  slot.host_words = std::move(*host);
  slot.device_words = std::move(*device);
  slot.word_capacity = 2 * words;
  return {};
}

// Queues the kernel for the draws of the slot, and the event that tells when it is done.
Status TokenSampler::draw_on_device(const Launch& launch, Slot& slot, int count) {
  Status status;
  if (slot.words > 0) {
    status = status_of(
        cudaMemcpyAsync(slot.device_words->data(), slot.words_on_host(),
                        slot.words * sizeof(std::int32_t), cudaMemcpyHostToDevice, launch.stream),
        "copying what is drawn");
  }
  if (status.ok()) {
    status =
        draw_tokens(launch, slot.draws, slot.words_on_device(), count, vocabulary_, slot.results);
  }
  if (!status.ok()) return status;
  return status_of(cudaEventRecord(slot.computed.get(), launch.stream), "drawing tokens");
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
