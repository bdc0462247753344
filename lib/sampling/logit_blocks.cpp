#include "sampling/logit_blocks.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>

namespace quire::sampling {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

using Block = float[LogitBlocks::kWidth];

// The block itself or, if it is the shorter last one, a copy with -infinity for what it lacks.
const float* full_block(std::span<const float> logits, Block& copy) {
  if (logits.size() == LogitBlocks::kWidth) return logits.data();
  std::fill(std::copy(logits.begin(), logits.end(), copy), std::end(copy), kNever);
  return copy;
}

// The loops over the vocabulary follow: no branches in them, but vectors and masks.

using Lanes = float __attribute__((vector_size(16)));  // of GCC and Clang, on every machine

float block_max(const float* logits) {
  const Lanes never = Lanes{} + kNever, finite = Lanes{} + FLT_MAX;
  Lanes best[4] = {never, never, never, never};
  for (int i = 0; i < LogitBlocks::kWidth; i += 16) {
    for (int j = 0; j < 4; ++j) {
      Lanes x;
      std::memcpy(&x, logits + i + 4 * j, sizeof x);
      x = x <= finite ? x : never;  // NaN and +infinity: never
      best[j] = x > best[j] ? x : best[j];
    }
  }
  float largest = kNever;
  for (const Lanes& lanes : best) {
    for (int k = 0; k < 4; ++k) largest = std::max(largest, lanes[k]);
  }
  return largest;
}

// All ones or all zeros.
std::uint32_t mask(bool condition) {
  return 0 - static_cast<std::uint32_t>(condition);
}

float kept_weight(float logit, std::int32_t id, const Weight& weight, const Cut& cut) {
  const std::uint32_t kept =
      mask(logit <= FLT_MAX) &
      (mask(logit > cut.value) | (mask(logit == cut.value) & mask(id <= cut.id)));
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(weight(logit)) & kept);
}

void weigh_block(const float* logits, std::int32_t first, const Weight& weight, const Cut& cut,
                 Block& weights) {
  for (int i = 0; i < LogitBlocks::kWidth; ++i) {
    weights[i] = kept_weight(logits[i], first + i, weight, cut);
  }
}

}  // namespace

LogitBlocks::LogitBlocks(std::span<const float> logits, std::vector<float>& maxima)
    : logits_(logits), max_(kNever) {
  maxima.resize((logits.size() + kWidth - 1) / kWidth);
  maxima_ = maxima;
  for (int b = 0; b < count(); ++b) {
    Block copy;
    maxima[b] = block_max(full_block(block(b), copy));
    max_ = std::max(max_, maxima[b]);
  }
}

std::span<const float> LogitBlocks::block(int b) const {
  const std::size_t first = static_cast<std::size_t>(b) * kWidth;
  return logits_.subspan(first, std::min<std::size_t>(kWidth, logits_.size() - first));
}

std::int32_t LogitBlocks::argmax() const {
  const auto best = std::find(maxima_.begin(), maxima_.end(), max_);
  const int b = static_cast<int>(best - maxima_.begin());
  const auto in_block = block(b);
  const auto token = std::find(in_block.begin(), in_block.end(), max_);
  return static_cast<std::int32_t>(b * kWidth + (token - in_block.begin()));
}

void LogitBlocks::gather(std::size_t most, float floor, std::vector<Candidate>& to) const {
  if (most < maxima_.size()) {
    // `most` blocks have a token as good as the worst of their maxima, so nothing below it counts.
    std::vector<float> best(maxima_.begin(), maxima_.end());
    std::nth_element(best.begin(), best.begin() + static_cast<std::ptrdiff_t>(most), best.end(),
                     std::greater<float>());
    floor = std::max(floor, best[most]);
  }
  to.clear();
  for (int b = 0; b < count(); ++b) {
    if (maxima_[b] < floor) continue;
    const auto in_block = block(b);
    for (std::size_t i = 0; i < in_block.size(); ++i) {
      const float logit = in_block[i];
      if (logit >= floor && logit <= FLT_MAX && logit >= -FLT_MAX) {
        to.emplace_back(logit, static_cast<std::int32_t>(b * kWidth + i));
      }
    }
  }
}

double LogitBlocks::weigh(const Weight& weight, const Cut& cut,
                          std::vector<double>& block_sums) const {
  block_sums.resize(maxima_.size());
  double total = 0;
  for (int b = 0; b < count(); ++b) {
    block_sums[b] = 0;
    if (maxima_[b] < cut.value) continue;
    Block copy, weights;
    weigh_block(full_block(block(b), copy), b * kWidth, weight, cut, weights);
    double lane[4] = {};
    for (int i = 0; i < kWidth; i += 4) {
      for (int j = 0; j < 4; ++j) lane[j] += weights[i + j];
    }
    block_sums[b] = (lane[0] + lane[1]) + (lane[2] + lane[3]);
    total += block_sums[b];
  }
  return total;
}

std::int32_t LogitBlocks::pick(double target, const Weight& weight, const Cut& cut,
                               std::span<const double> block_sums) const {
  double before = 0;
  int chosen = 0;  // the last block of any weight, should rounding carry the sum past the target
  for (int b = 0; b < count(); ++b) {
    if (block_sums[b] == 0) continue;
    chosen = b;
    if (before + block_sums[b] > target) break;
    before += block_sums[b];
  }
  const auto in_block = block(chosen);
  std::int32_t token = chosen * kWidth;
  for (std::size_t i = 0; i < in_block.size(); ++i) {
    const std::int32_t id = chosen * kWidth + static_cast<std::int32_t>(i);
    const float w = kept_weight(in_block[i], id, weight, cut);
    if (w == 0) continue;
    token = id;
    before += w;
    if (before > target) break;
  }
  return token;
}

}  // namespace quire::sampling
