#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "base/thread_pool.h"

namespace quire::cpu {

// Calls body(first, last, worker) for pieces of [0, count) of at most `piece` items, which the
// threads claim one after the other; with one piece the caller does it alone. The body must not
// throw, and no result may depend on where pieces begin or who takes them.
template <class Body>
void for_pieces(ThreadPool& pool, std::int64_t count, std::int64_t piece, Body&& body) {
  piece = std::max<std::int64_t>(piece, 1);
  if (pool.size() == 1 || count <= piece) {
    if (count > 0) body(std::int64_t{0}, count, 0);
    return;
  }
  std::atomic<std::int64_t> next{0};
  auto task = [&](int worker, int) {
    for (;;) {
      const std::int64_t first = next.fetch_add(piece, std::memory_order_relaxed);
      if (first >= count) return;
      body(first, std::min(first + piece, count), worker);
    }
  };
  pool.run(task);
}

// Items in a piece so that each thread gets about `pieces` of them, and at least `least`.
inline std::int64_t piece_size(const ThreadPool& pool, std::int64_t count, std::int64_t pieces,
                               std::int64_t least) {
  return std::max(least, count / (pool.size() * pieces) + 1);
}

}  // namespace quire::cpu
