#include "sampling/draw.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "sampling/distribution.h"
#include "sampling/filters.h"
#include "sampling/logit_blocks.h"
#include "sampling/logprobs.h"
#include "sampling/penalties.h"
#include "sampling/philox.h"

namespace quire {
namespace sampling {
namespace {

constexpr float kGreedyBelow = 1e-5f;

Status check(const DrawArgs& args) {
  if (args.logits == nullptr || args.vocabulary <= 0) {
    return error(StatusCode::internal, "a draw from a vocabulary of {} tokens", args.vocabulary);
  }
  if (!args.draw && (args.given < 0 || args.given >= args.vocabulary)) {
    return error(StatusCode::internal, "log-probability of token {} of a vocabulary of {}",
                 args.given, args.vocabulary);
  }
  if (args.draw && !(args.params.temperature >= 0 && std::isfinite(args.params.temperature))) {
    return error(StatusCode::internal, "a draw at temperature {}", args.params.temperature);
  }
  return {};
}

Status no_finite_logit(const DrawArgs& args) {
  const float* last = args.logits + args.vocabulary;
  const auto nans = std::count_if(args.logits, last, [](float x) { return std::isnan(x); });
  return error(StatusCode::internal, "none of the {} logits is finite ({} are NaN)",
               args.vocabulary, nans);
}

// The logits that the temperature is applied to: the raw ones, or a changed copy of them.
Result<LogitBlocks> changed(const DrawArgs& args, const LogitBlocks& raw, DrawScratch& scratch) {
  if (!changes_logits(args.params)) return raw;
  scratch.logits.assign(raw.logits().begin(), raw.logits().end());
  change_logits(args, scratch.logits, scratch);
  const LogitBlocks blocks(scratch.logits, scratch.changed_maxima);
  if (std::isfinite(blocks.max())) return blocks;
  return error(StatusCode::invalid_argument,
               "{} banned and {} allowed tokens leave none of the {} that could be chosen",
               args.params.banned.size(), args.params.allowed.size(), args.vocabulary);
}

Weight weight_of(const DrawArgs& args, const LogitBlocks& blocks) {
  return {blocks.max(), 1 / args.params.temperature};
}

std::int32_t choose(const DrawArgs& args, const LogitBlocks& blocks, DrawScratch& scratch) {
  if (args.params.temperature < kGreedyBelow) return blocks.argmax();
  const Weight weight = weight_of(args, blocks);
  const Cut cut = find_cut(blocks, args.params, weight, scratch);
  const double total = blocks.weigh(weight, cut, scratch.block_sums);
  const double u = uniform(args.seed, static_cast<std::uint32_t>(args.choice),
                           static_cast<std::uint32_t>(args.position));
  return blocks.pick(u * total, weight, cut, scratch.block_sums);
}

DrawResult failed(Status status) {
  DrawResult result;
  result.status = std::move(status);
  return result;
}

}  // namespace

Result<std::vector<std::pair<std::int32_t, double>>> distribution(const DrawArgs& args,
                                                                  DrawScratch& scratch) {
  if (Status bad = check(args); !bad) return bad;
  const LogitBlocks raw({args.logits, static_cast<std::size_t>(args.vocabulary)}, scratch.maxima);
  if (!std::isfinite(raw.max())) return no_finite_logit(args);
  const auto blocks = changed(args, raw, scratch);
  if (!blocks) return blocks.status();

  std::vector<std::pair<std::int32_t, double>> kept;
  if (args.params.temperature < kGreedyBelow) {
    kept.emplace_back(blocks->argmax(), 1.0);
    return kept;
  }
  const Weight weight = weight_of(args, *blocks);
  const Cut cut = find_cut(*blocks, args.params, weight, scratch);
  const double total = blocks->weigh(weight, cut, scratch.block_sums);
  for (std::int32_t id = 0; id < args.vocabulary; ++id) {
    const float logit = blocks->logits()[id];
    if (!std::isfinite(logit) || !cut.keeps(logit, id)) continue;
    if (const float w = weight(logit); w > 0) kept.emplace_back(id, w / total);
  }
  return kept;
}

}  // namespace sampling

DrawResult draw_token(const DrawArgs& args, DrawScratch& scratch) {
  using namespace sampling;
  if (Status bad = check(args); !bad) return failed(std::move(bad));
  const LogitBlocks raw({args.logits, static_cast<std::size_t>(args.vocabulary)}, scratch.maxima);
  if (!std::isfinite(raw.max())) return failed(no_finite_logit(args));

  DrawResult result;
  result.token = args.given;
  if (args.draw) {
    const auto blocks = changed(args, raw, scratch);
    if (!blocks) return failed(blocks.status());
    result.token = choose(args, *blocks, scratch);
  }
  if (args.logprobs >= 0) fill_logprobs(raw, result.token, args.logprobs, scratch, result);
  return result;
}

}  // namespace quire
