#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include <quire/quire.h>

// Ids of the whole vocabulary. The same on every system: std::uniform_int_distribution is not.
inline std::vector<std::int32_t> random_tokens(const quire::Engine& engine, std::mt19937_64& random,
                                               int count) {
  const auto vocabulary = static_cast<std::uint64_t>(engine.tokenizer().vocabulary_size());
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(count));
  for (std::int32_t& token : tokens) token = static_cast<std::int32_t>(random() % vocabulary);
  return tokens;
}
