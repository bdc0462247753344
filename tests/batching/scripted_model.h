#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "batching/plan.h"

namespace quire::test {

// A model without weights. What it keeps for a token is a hash of the token, its position and all
// that a query there sees in every KV group; the next token is a function of that hash. So every
// page that is stale, wrong or written twice changes what follows.

inline std::uint64_t mix(std::uint64_t h, std::uint64_t value) {
  h ^= value + 0x9e3779b97f4a7c15u + (h << 6) + (h >> 2);
  h *= 0xff51afd7ed558ccdu;
  return h ^ (h >> 33);
}

constexpr std::int32_t kEndToken = 0;

// The token drawn for one choice, `index` tokens into its answer.
inline std::int32_t draw_token(std::uint64_t state, int choice, int vocabulary) {
  return static_cast<std::int32_t>(mix(mix(state, 77), static_cast<std::uint64_t>(choice)) %
                                   static_cast<std::uint64_t>(vocabulary));
}

// States of all tokens, computed on contiguous memory: the reference.
inline std::vector<std::uint64_t> contiguous_states(std::span<const std::int32_t> tokens,
                                                    std::span<const int> windows, int rope_choice) {
  std::vector<std::uint64_t> states;
  for (std::size_t p = 0; p < tokens.size(); ++p) {
    std::uint64_t h =
        mix(mix(static_cast<std::uint64_t>(tokens[p]), p), static_cast<std::uint64_t>(rope_choice));
    for (std::size_t g = 0; g < windows.size(); ++g) {
      const std::size_t w = static_cast<std::size_t>(windows[g]);
      h = mix(h, g);
      for (std::size_t i = w == 0 || p + 1 < w ? 0 : p + 1 - w; i < p; ++i) h = mix(h, states[i]);
    }
    states.push_back(h);
  }
  return states;
}

// One choice's whole answer. The end token, when drawn, is the last and is kept in the answer.
inline std::vector<std::int32_t> expected_answer(std::vector<std::int32_t> tokens, int max_tokens,
                                                 int choice, std::span<const int> windows,
                                                 int rope_choice, int vocabulary) {
  std::vector<std::int32_t> answer;
  while (static_cast<int>(answer.size()) < max_tokens) {
    const auto states = contiguous_states(tokens, windows, rope_choice);
    answer.push_back(draw_token(states.back(), choice, vocabulary));
    tokens.push_back(answer.back());
    if (answer.back() == kEndToken) break;
  }
  return answer;
}

class ScriptedModel {
 public:
  ScriptedModel(int page_size, const std::vector<int>& page_counts, std::vector<int> windows)
      : page_size_(page_size), windows_(std::move(windows)) {
    for (int pages : page_counts) {
      memory_.emplace_back(static_cast<std::size_t>(page_size * pages), 1);
    }
  }

  // The state of every row. Sequences are computed in a random order, and copies all at once: a
  // plan must not depend on either.
  std::vector<std::uint64_t> run(const Plan& plan, std::mt19937_64& random) {
    copy_pages(plan.copies);
    std::vector<std::uint64_t> states(plan.tokens.size(), 0);
    std::vector<std::size_t> order(plan.slices.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::shuffle(order.begin(), order.end(), random);
    for (std::size_t i : order) run_slice(plan, plan.slices[i], &states);
    return states;
  }

 private:
  std::uint64_t& slot(std::size_t group, PageId page, int offset) {
    return memory_[group].at(static_cast<std::size_t>(page) * static_cast<std::size_t>(page_size_) +
                             static_cast<std::size_t>(offset));
  }

  void copy_pages(const std::vector<PageCopy>& copies) {
    std::vector<std::uint64_t> read;
    for (const PageCopy& c : copies) {
      for (int i = 0; i < c.tokens; ++i)
        read.push_back(slot(static_cast<std::size_t>(c.group), c.from, i));
    }
    std::size_t next = 0;
    for (const PageCopy& c : copies) {
      for (int i = 0; i < c.tokens; ++i) {
        slot(static_cast<std::size_t>(c.group), c.to, i) = read[next++];
      }
    }
  }

  void run_slice(const Plan& plan, const PlanSlice& slice, std::vector<std::uint64_t>* states) {
    for (int i = 0; i < slice.tokens; ++i) {
      const std::size_t row = static_cast<std::size_t>(slice.first_row + i);
      const int p = slice.first_position + i;
      std::uint64_t h = mix(mix(static_cast<std::uint64_t>(plan.tokens.at(row)),
                                static_cast<std::uint64_t>(plan.positions.at(row))),
                            static_cast<std::uint64_t>(plan.rope_choices.at(row)));
      for (std::size_t g = 0; g < windows_.size(); ++g) {
        h = mix(h, g);
        for (int q = windows_[g] == 0 ? 0 : std::max(0, p - windows_[g] + 1); q < p; ++q) {
          h = mix(h, slot(g, page_of(plan, slice, g, q), q % page_size_));
        }
      }
      for (std::size_t g = 0; g < windows_.size(); ++g) {
        slot(g, page_of(plan, slice, g, p), p % page_size_) = h;
      }
      (*states)[row] = h;
    }
  }

  PageId page_of(const Plan& plan, const PlanSlice& slice, std::size_t group, int position) const {
    const auto table = plan.page_table(slice, group);
    const std::size_t index = static_cast<std::size_t>(position / page_size_);
    return index < table.size() ? table[index] : kNoPage;
  }

  int page_size_;
  std::vector<int> windows_;
  std::vector<std::vector<std::uint64_t>> memory_;  // [group][page][offset]
};

}  // namespace quire::test
