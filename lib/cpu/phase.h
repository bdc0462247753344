#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "base/thread_pool.h"

namespace quire::cpu {

// Pieces [next, last), which one thread takes first and the others when they have none left. Plain
// numbers, so that an array of them costs nothing before it is used.
struct alignas(64) PieceRange {
  std::int64_t next;
  std::int64_t last;

  // A piece that nobody else has, or `last`.
  std::int64_t take() {
    const std::atomic_ref shared(next);
    if (shared.load(std::memory_order_relaxed) >= last) return last;
    return std::min(shared.fetch_add(1, std::memory_order_relaxed), last);
  }
};

// Calls body(first, last, worker) for pieces of [0, count) of at most `piece` items, and then
// done(worker) for each worker that got some; with one piece the caller does it alone. Each thread
// begins with a share of its own, the same in every phase with as many pieces, so that it finds in
// its cache what it wrote in the phase before. The calls must not throw, and no result may depend
// on where pieces begin or who takes them.
template <class Body, class Done>
void for_pieces(ThreadPool& pool, std::int64_t count, std::int64_t piece, Body&& body,
                Done&& done) {
  piece = std::max<std::int64_t>(piece, 1);
  if (pool.size() == 1 || count <= piece) {
    if (count <= 0) return;
    body(std::int64_t{0}, count, 0);
    done(0);
    return;
  }
  constexpr int kMostRanges = 64;
  PieceRange ranges[kMostRanges];
  const int used = std::min(pool.size(), kMostRanges);
  const std::int64_t pieces = (count + piece - 1) / piece;
  for (int r = 0; r < used; ++r) {
    ranges[r].next = pieces * r / used;
    ranges[r].last = pieces * (r + 1) / used;
  }
  auto task = [&](int worker, int) {
    bool any = false;
    for (int i = 0; i < used; ++i) {
      PieceRange& range = ranges[(worker + i) % used];
      for (std::int64_t n = range.take(); n < range.last; n = range.take()) {
        body(n * piece, std::min((n + 1) * piece, count), worker);
        any = true;
      }
    }
    if (any) done(worker);
  };
  pool.run(task);
}

template <class Body>
void for_pieces(ThreadPool& pool, std::int64_t count, std::int64_t piece, Body&& body) {
  for_pieces(pool, count, piece, body, [](int) {});
}

// Items in a piece so that each thread gets about `pieces` of them, and at least `least`.
inline std::int64_t piece_size(const ThreadPool& pool, std::int64_t count, std::int64_t pieces,
                               std::int64_t least) {
  return std::max(least, count / (pool.size() * pieces) + 1);
}

}  // namespace quire::cpu
