#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace quire::text {

// A pair of symbols -> the rank of its merge and the symbol that it becomes. Open addressing with
// linear probing, filled once.
class PairTable {
 public:
  struct Merge {
    std::int32_t rank = -1;  // the lower merges first; -1: no such merge
    std::int32_t symbol = -1;
  };

  PairTable() : PairTable(0) {}
  // Room for `count` pairs.
  explicit PairTable(std::size_t count) {
    std::size_t slots = 16;
    while (slots < count + count / 2) slots *= 2;
    slots_.resize(slots);
  }

  // Keeps the first of two equal pairs. Symbols are >= 0.
  void insert(std::int32_t left, std::int32_t right, Merge merge) {
    Slot& slot = slots_[find_slot(key(left, right))];
    if (slot.key != empty) return;
    slot = {key(left, right), merge};
  }
  Merge find(std::int32_t left, std::int32_t right) const {
    return slots_[find_slot(key(left, right))].merge;
  }

 private:
  static constexpr std::uint64_t empty = ~std::uint64_t{0};
  struct Slot {
    std::uint64_t key = empty;
    Merge merge;
  };

  static std::uint64_t key(std::int32_t left, std::int32_t right) {
    return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32 |
           static_cast<std::uint32_t>(right);
  }
  std::size_t find_slot(std::uint64_t wanted) const {
    std::uint64_t hash = wanted * 0x9E3779B97F4A7C15u;
    hash ^= hash >> 32;
    std::size_t at = hash & (slots_.size() - 1);
    while (slots_[at].key != empty && slots_[at].key != wanted) at = (at + 1) & (slots_.size() - 1);
    return at;
  }

  std::vector<Slot> slots_;  // a power of two, never full
};

}  // namespace quire::text
