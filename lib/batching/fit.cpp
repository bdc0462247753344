#include <algorithm>

#include "base/checked.h"
#include "base/error.h"
#include "batching/batcher_impl.h"
#include "paging/most_pages.h"

namespace quire {
namespace {

struct Demand {
  std::size_t prompt = 0;  // tokens
  std::size_t stored = 0;  // most tokens of a choice with keys and values: the last one needs none
  std::size_t choices = 1;
  std::size_t page_size = 1;
  std::size_t chunk = 1;  // most tokens of the prompt in one pass
};

// Pages of all choices at their end: the prompt's whole pages once, the rest for each choice.
CheckedSize full_group_pages(const Demand& d) {
  if (d.stored == d.prompt) return ceil_div(d.prompt, d.page_size);
  const std::size_t shared = d.prompt / d.page_size;
  CheckedSize own = d.choices;
  own *= ceil_div(d.stored, d.page_size) - shared;
  return own + shared;
}

// The same for a group that gives back pages behind its window, with all choices in step. A pass of
// the prompt holds its own pages and those of the window before it.
CheckedSize window_group_pages(const Demand& d, std::size_t window) {
  std::size_t most = std::min(ceil_div(d.prompt, d.page_size),
                              most_pages(window - 1 + std::min(d.prompt, d.chunk), d.page_size));
  const std::size_t shared_end = d.prompt / d.page_size;
  // Once the prompt is behind the window, the need repeats with the page size.
  const std::size_t end = std::min(d.stored, d.prompt + window + 2 * d.page_size);
  for (std::size_t position = d.prompt; position < end; ++position) {
    const std::size_t first = (position + 1 > window ? position + 1 - window : 0) / d.page_size;
    const std::size_t shared = shared_end > first ? shared_end - first : 0;
    const std::size_t own = position / d.page_size + 1 - std::max(first, shared_end);
    most = std::max(most, shared + d.choices * own);  // both bounded by the context
  }
  return most;
}

}  // namespace

Status Batcher::can_ever_fit(const BatchRequest& request) const {
  const BatcherOptions& o = impl_->options;
  if (request.prompt.empty()) {
    return error(StatusCode::invalid_argument, "prompt of 0 tokens, at least 1 is needed");
  }
  if (request.n < 1 || request.max_tokens < 0) {
    return error(StatusCode::invalid_argument,
                 "n is {} and max_tokens {}, at least 1 and 0 are needed", request.n,
                 request.max_tokens);
  }
  const std::size_t prompt = request.prompt.size();
  const std::size_t output = static_cast<std::size_t>(request.max_tokens);
  if (prompt + output > static_cast<std::size_t>(std::max(0, o.context))) {
    return error(StatusCode::resource_exhausted,
                 "prompt of {} tokens and {} to generate, context is {}", prompt, output,
                 o.context);
  }
  if (request.n > o.max_running) {
    return error(StatusCode::resource_exhausted, "{} answers of one request, max_running is {}",
                 request.n, o.max_running);
  }
  Demand demand{.prompt = prompt, .page_size = static_cast<std::size_t>(o.page_size)};
  demand.stored = prompt + output - std::min<std::size_t>(output, 1);
  demand.choices = static_cast<std::size_t>(request.n);
  demand.chunk = static_cast<std::size_t>(std::max(1, o.max_step_tokens));
  for (std::size_t g = 0; g < o.windows.size(); ++g) {
    const int window = o.windows[g];
    const CheckedSize pages = window == 0
                                  ? full_group_pages(demand)
                                  : window_group_pages(demand, static_cast<std::size_t>(window));
    const auto needed = pages.get();
    if (!needed || *needed > static_cast<std::size_t>(std::max(0, o.page_counts[g]))) {
      return error(
          StatusCode::resource_exhausted,
          "prompt of {} tokens and {} x {} to generate need {} pages of {} tokens, there are {}",
          prompt, request.n, output, needed.value_or(SIZE_MAX), o.page_size, o.page_counts[g]);
    }
  }
  return {};
}

}  // namespace quire
