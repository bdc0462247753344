#include "text/bpe_model.h"

#include <algorithm>
#include <functional>

#include "text/utf8.h"

namespace quire::text {

BpeModel::BpeModel(BpeVocabulary vocabulary)
    : alphabet_(vocabulary.alphabet),
      byte_tokens_(vocabulary.byte_tokens),
      unknown_(vocabulary.unknown),
      fuse_unknown_(vocabulary.fuse_unknown),
      ignore_merges_(vocabulary.ignore_merges) {
  has_byte_tokens_ = std::all_of(byte_tokens_.begin(), byte_tokens_.end(),
                                 [](std::int32_t id) { return id >= 0; });
  std::size_t bytes = 0;
  for (const auto& entry : vocabulary.entries) bytes += entry.text.size();
  const std::size_t count = vocabulary.entries.size() + byte_symbols_.size();
  symbols_ = TextIndex(count, bytes + byte_symbols_.size());
  token_of_.reserve(count);
  for (const auto& entry : vocabulary.entries) {
    if (!entry.text.empty() && symbols_.insert(entry.text).added) token_of_.push_back(entry.id);
  }
  if (alphabet_ == BpeVocabulary::Alphabet::bytes) {
    for (int byte = 0; byte < 256; ++byte) {
      byte_symbols_[byte] = intern(std::string(1, static_cast<char>(byte)));
    }
  }
  add_merges(vocabulary.merges);
}

// A merge may make a text that is no token, as a step to a longer one.
std::int32_t BpeModel::intern(std::string_view text) {
  const auto [symbol, added] = symbols_.insert(text);
  if (added) token_of_.push_back(-1);
  return symbol;
}

void BpeModel::add_merges(const std::vector<std::pair<std::string, std::string>>& merges) {
  merges_ = PairTable(merges.size());
  std::int32_t rank = 0;
  for (const auto& [left, right] : merges) {
    merges_.insert(intern(left), intern(right), {rank++, intern(left + right)});
  }
}

void BpeModel::encode(std::string_view word, Scratch& scratch,
                      std::vector<std::int32_t>& ids) const {
  if (ignore_merges_) {
    const std::int32_t whole = symbols_.find(word);
    if (whole >= 0 && token_of_[whole] >= 0) {
      ids.push_back(token_of_[whole]);
      return;
    }
  }
  scratch.symbols.clear();
  split(word, scratch.symbols);
  merge(scratch);
  bool after_unknown = false;
  for (const std::int32_t symbol : scratch.symbols) {
    if (symbol == merged_away) continue;
    if (symbol >= 0 && token_of_[symbol] < 0) {
      scratch.spelled.clear();
      split(symbols_[symbol], scratch.spelled);
    } else {
      scratch.spelled.assign(1, symbol);
    }
    for (const std::int32_t part : scratch.spelled) {
      const bool unknown = !append(part, ids, after_unknown && fuse_unknown_);
      after_unknown = unknown;
    }
  }
}

void BpeModel::split(std::string_view word, std::vector<std::int32_t>& symbols) const {
  if (alphabet_ == BpeVocabulary::Alphabet::bytes) {
    for (const char c : word) symbols.push_back(byte_symbols_[static_cast<unsigned char>(c)]);
    return;
  }
  while (!word.empty()) {
    const std::string_view character = word.substr(0, next_utf8(word).length);
    const std::int32_t symbol = symbols_.find(character);
    if (symbol >= 0 || !has_byte_tokens_) {
      symbols.push_back(symbol);
    } else {
      for (const char c : character) {
        symbols.push_back(first_byte_symbol - static_cast<unsigned char>(c));
      }
    }
    word.remove_prefix(character.size());
  }
}

// A queue entry says that the pair at a position had a rank. It holds as long as the pair there
// still has that rank, which names the pair; other entries are stale.
void BpeModel::merge(Scratch& scratch) const {
  auto& symbols = scratch.symbols;
  const auto count = static_cast<std::int32_t>(symbols.size());
  if (count < 2) return;
  auto& [unused, previous, next, spelled, queue] = scratch;
  previous.resize(count);
  next.resize(count);
  queue.clear();
  for (std::int32_t i = 0; i < count; ++i) {
    previous[i] = i - 1;
    next[i] = i + 1;
  }
  const auto pair_at = [&](std::int32_t at) {
    const std::int32_t right = next[at];
    if (symbols[at] < 0 || right >= count || symbols[right] < 0) return PairTable::Merge{};
    return merges_.find(symbols[at], symbols[right]);
  };
  const auto push = [&](std::int32_t at) {
    const PairTable::Merge merge = pair_at(at);
    if (merge.rank < 0) return false;
    queue.push_back(static_cast<std::uint64_t>(merge.rank) << 32 | static_cast<std::uint32_t>(at));
    return true;
  };
  for (std::int32_t i = 0; i + 1 < count; ++i) push(i);
  std::make_heap(queue.begin(), queue.end(), std::greater<>());
  while (!queue.empty()) {
    std::pop_heap(queue.begin(), queue.end(), std::greater<>());
    const std::uint64_t entry = queue.back();
    queue.pop_back();
    const auto at = static_cast<std::int32_t>(entry & 0xFFFFFFFF);
    const PairTable::Merge merge = pair_at(at);
    if (merge.rank != static_cast<std::int32_t>(entry >> 32)) continue;
    const std::int32_t right = next[at];
    symbols[at] = merge.symbol;
    symbols[right] = merged_away;
    next[at] = next[right];
    if (next[at] < count) previous[next[at]] = at;
    if (push(at)) std::push_heap(queue.begin(), queue.end(), std::greater<>());
    if (previous[at] >= 0 && push(previous[at])) {
      std::push_heap(queue.begin(), queue.end(), std::greater<>());
    }
  }
}

// False for an unknown, which is left out when `fuse` says that the id before stands for it too.
bool BpeModel::append(std::int32_t symbol, std::vector<std::int32_t>& ids, bool fuse) const {
  std::int32_t id = -1;
  if (symbol >= 0) id = token_of_[symbol];
  if (symbol <= first_byte_symbol) id = byte_tokens_[first_byte_symbol - symbol];
  if (id >= 0) {
    ids.push_back(id);
    return true;
  }
  if (unknown_ && !fuse) ids.push_back(*unknown_);
  return false;
}

}  // namespace quire::text
