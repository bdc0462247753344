#include "sampling/token_sampler.h"

#include <algorithm>

#include "base/checked.h"
#include "base/error.h"
#include "sampling/draw_tokens.h"

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
  changed_ = {reinterpret_cast<float*>(device_),
              reinterpret_cast<std::int32_t*>(device_ + parts.logits),
              Parts::row_stride(vocabulary_)};
  for (Slot& slot : slots_) {
    if (Status status = slot.draws.allocate(ordinal_, rows_); !status.ok()) return status;
  }
  const auto most = prepare_draws();
  if (!most) return most.status();
  most_vocabulary_ = *most;
  if (Status s =
          status_of(cudaMemset(changed_.counts, 0, parts.counts), "cudaMemset of token counts");
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
    if (needs_changed_row(draws[i]) && ++changed > kMostChanged) return i;
  }
  return most;
}

Result<TokenSampler::Slot*> TokenSampler::free_slot() {
  for (Slot& slot : slots_) {
    if (slot.number != 0) continue;
    if (Status status = slot.draws.wait(); !status.ok()) return status;
    return &slot;
  }
  return nullptr;
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
    QueuedDraws& queued = (*slot)->draws;
    Status status = queued.start(launch, described, vocabulary_, changed_);
    if (status.ok()) status = queued.wait();
    if (!status.ok()) return status;
    for (std::size_t d = 0; d < owners.size(); ++d) {
      const DeviceDrawResult& result = queued.results()[d];
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
  if (Status s = slot.draws.start(launch, draws, vocabulary_, changed_); !s.ok()) return s;
  return slot.number = ++last_number_;
}

Result<DrawsState> TokenSampler::collect(std::uint64_t number, std::span<DrawResult> results,
                                         bool wait) {
  for (Slot& slot : slots_) {
    if (number == 0 || slot.number != number || slot.described.size() != results.size()) continue;
    if (!wait && slot.draws.computing()) return DrawsState::computing;
    slot.number = 0;
    if (Status status = slot.draws.wait(); !status.ok()) return status;
    const DeviceDrawResult* drawn = slot.draws.results();
    for (std::size_t i = 0; i < results.size(); ++i) {
      if (drawn[i].outcome == DrawOutcome::too_wide) return DrawsState::lost;
      take_result(slot.described[i], drawn[i], results[i]);
    }
    return DrawsState::ready;
  }
  return error(StatusCode::internal, "await_draws: no {} draws of number {}", results.size(),
               number);
}

const DeviceDrawResult* TokenSampler::results_of(std::uint64_t number) const {
  for (const Slot& slot : slots_) {
    if (number != 0 && slot.number == number) return slot.draws.results();
  }
  return nullptr;
}

void TokenSampler::forget() {
  for (Slot& slot : slots_) slot.number = 0;
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
