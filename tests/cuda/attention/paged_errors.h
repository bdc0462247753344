#pragma once

#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "attention/reference.h"
#include "cuda/attention/paged_case.h"

namespace quire::test {

// Largest and mean relative error (norms of a row's head) against float64.
struct Errors {
  double largest = 0, mean = 0;
};

inline Errors errors_of(const PagedCase& the_case, const std::vector<Part>& parts,
                        const std::vector<std::uint16_t>& output) {
  struct Query {
    int sequence, row, head;
    std::size_t at;
  };
  const CaseShape& shape = the_case.shape();
  std::vector<Query> all;
  for (const Part& part : parts) {
    for (int row = part.first; row < part.first + part.rows; ++row) {
      for (int head = 0; head < shape.heads; ++head) {
        all.push_back({part.sequence, row, head, all.size() * shape.head_size});
      }
    }
  }
  std::vector<double> errors(all.size());
  const auto compare = [&](std::size_t i) {
    const Query& q = all[i];
    const int kv_head = q.head / (shape.heads / shape.kv_heads);
    const std::vector<double> query = the_case.query(q.sequence, q.row, q.head);
    const double sink = the_case.sink(q.head);
    attention::ReferenceQuery args;
    args.query = query;
    args.keys = the_case.keys(q.sequence, kv_head);
    args.values = the_case.values(q.sequence, kv_head);
    args.position = q.row;
    args.window = shape.window;
    args.scale = the_case.scale();
    args.soft_cap = shape.soft_cap;
    args.sink = shape.sinks ? &sink : nullptr;
    const std::vector<double> exact = attention::reference_attention(args);
    double difference = 0, norm = 0;
    for (int j = 0; j < shape.head_size; ++j) {
      const double d = from_bfloat16(output[q.at + j]) - exact[j];
      difference += d * d;
      norm += exact[j] * exact[j];
    }
    errors[i] = std::sqrt(difference / norm);
    if (std::isnan(errors[i])) errors[i] = 1e9;
  };
  const std::size_t workers = std::max(1u, std::min(16u, std::thread::hardware_concurrency()));
  std::vector<std::thread> threads;
  for (std::size_t w = 0; w < workers; ++w) {
    threads.emplace_back([&, w] {
      for (std::size_t i = w; i < all.size(); i += workers) compare(i);
    });
  }
  for (std::thread& thread : threads) thread.join();
  Errors result;
  for (const double e : errors) {
    result.largest = std::max(result.largest, e);
    result.mean += e / static_cast<double>(errors.size());
  }
  return result;
}

// Empty if two outputs have the same bits.
inline std::string difference(const std::vector<std::uint16_t>& a,
                              const std::vector<std::uint16_t>& b) {
  if (a == b) return "";
  if (a.size() != b.size()) return "sizes differ";
  std::size_t count = 0, first = a.size();
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i]) continue;
    if (count++ == 0) first = i;
    largest = std::max(largest,
                       std::fabs(static_cast<double>(from_bfloat16(a[i])) - from_bfloat16(b[i])));
  }
  return fmt::format("{} of {} differ by up to {}, the first at {}", count, a.size(), largest,
                     first);
}

}  // namespace quire::test
