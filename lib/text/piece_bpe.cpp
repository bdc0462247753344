#include "text/piece_bpe.h"

#include <algorithm>
#include <unordered_map>

#include "text/token_spelling.h"
#include "text/utf8.h"

namespace quire::text {

// The symbols are a list of neighbouring parts of the text, at first its characters. A merge grows
// the left part and empties the right one.
class PieceBpe::Word {
 public:
  Word(const PieceBpe& model, std::string_view text) : model_(model), text_(text) {}

  void split();
  void merge();
  void append_to(std::vector<std::int32_t>& ids);

 private:
  struct Symbol {
    std::int32_t begin, size;  // bytes of the text; size 0: merged into another
    std::int32_t previous, next;
  };
  // That the part at `left` and the next one make a piece of `size` bytes; holds as long as they
  // do.
  struct Candidate {
    float score;
    std::int32_t left, size;
    bool operator<(const Candidate& other) const {
      return score < other.score || (score == other.score && left > other.left);
    }
  };

  bool is_symbol(std::int32_t i) const {
    return i >= 0 && i < static_cast<std::int32_t>(symbols_.size());
  }
  void consider(std::int32_t left);
  void append(std::string_view part, std::vector<std::int32_t>& ids);
  void append_unknown(std::string_view part, std::vector<std::int32_t>& ids);

  const PieceBpe& model_;
  std::string_view text_;
  std::vector<Symbol> symbols_;
  std::vector<Candidate> queue_;  // a heap
  // Unused piece -> the size of the left of the two parts that last would have made it.
  std::unordered_map<std::int32_t, std::int32_t> parts_;
  std::vector<std::string_view> rest_;  // of a piece that is taken apart, its beginning last
  bool after_unknown_ = false;
};

void PieceBpe::Word::split() {
  for (std::size_t at = 0; at < text_.size();) {
    const auto size = static_cast<std::int32_t>(next_utf8(text_.substr(at)).length);
    const auto i = static_cast<std::int32_t>(symbols_.size());
    symbols_.push_back({static_cast<std::int32_t>(at), size, i - 1, i + 1});
    at += static_cast<std::size_t>(size);
  }
}

// Queues the merge of the part at `left` with the next one, if it is one.
void PieceBpe::Word::consider(std::int32_t left) {
  if (!is_symbol(left) || !is_symbol(symbols_[left].next)) return;
  const Symbol& first = symbols_[left];
  const std::int32_t size = first.size + symbols_[first.next].size;
  const std::int32_t piece = model_.texts_.find(text_.substr(first.begin, size));
  if (piece == TextIndex::absent) return;
  queue_.push_back({model_.pieces_[piece].score, left, size});
  std::push_heap(queue_.begin(), queue_.end());
  if (model_.unused_[piece]) parts_[piece] = first.size;
}

void PieceBpe::Word::merge() {
  for (std::int32_t i = 0; is_symbol(i); ++i) consider(i);
  while (!queue_.empty()) {
    std::pop_heap(queue_.begin(), queue_.end());
    const Candidate best = queue_.back();
    queue_.pop_back();
    Symbol& left = symbols_[best.left];
    if (left.size == 0 || !is_symbol(left.next)) continue;
    Symbol& right = symbols_[left.next];
    if (left.size + right.size != best.size) continue;
    left.size = best.size;
    right.size = 0;
    left.next = right.next;
    if (is_symbol(left.next)) symbols_[left.next].previous = best.left;
    consider(left.previous);
    consider(best.left);
  }
}

void PieceBpe::Word::append_to(std::vector<std::int32_t>& ids) {
  for (std::int32_t i = 0; is_symbol(i); i = symbols_[i].next) {
    append(text_.substr(symbols_[i].begin, symbols_[i].size), ids);
  }
}

void PieceBpe::Word::append(std::string_view part, std::vector<std::int32_t>& ids) {
  rest_.assign(1, part);
  while (!rest_.empty()) {
    part = rest_.back();
    rest_.pop_back();
    const std::int32_t piece = model_.texts_.find(part);
    if (piece == TextIndex::absent) {
      append_unknown(part, ids);
      continue;
    }
    const auto parts = model_.unused_[piece] ? parts_.find(piece) : parts_.end();
    if (parts == parts_.end()) {
      ids.push_back(model_.pieces_[piece].id);
      after_unknown_ = false;
      continue;
    }
    rest_.push_back(part.substr(parts->second));
    rest_.push_back(part.substr(0, parts->second));
  }
}

void PieceBpe::Word::append_unknown(std::string_view part, std::vector<std::int32_t>& ids) {
  if (model_.has_byte_tokens_) {
    for (const char c : part) ids.push_back(model_.byte_tokens_[static_cast<unsigned char>(c)]);
    return;
  }
  if (model_.unknown_ && !after_unknown_) ids.push_back(*model_.unknown_);
  after_unknown_ = true;
}

PieceBpe::PieceBpe(const PieceModel& model) : unknown_(model.unknown) {
  byte_tokens_.fill(-1);
  std::size_t bytes = 0;
  for (const auto& piece : model.pieces) bytes += piece.text.size();
  texts_ = TextIndex(model.pieces.size(), bytes);
  pieces_.reserve(model.pieces.size());
  unused_.reserve(model.pieces.size());
  for (std::size_t i = 0; i < model.pieces.size(); ++i) {
    const auto& piece = model.pieces[i];
    const auto id = static_cast<std::int32_t>(i);
    if (unknown_ == id || piece.text.empty()) continue;
    if (piece.kind == TokenKind::byte) {
      if (const auto byte = parse_byte_piece(piece.text)) byte_tokens_[*byte] = id;
    }
    const bool matches = piece.kind == TokenKind::normal || piece.kind == TokenKind::unused;
    if (!matches || !texts_.insert(piece.text).added) continue;
    pieces_.push_back({id, piece.score});
    unused_.push_back(piece.kind == TokenKind::unused);
  }
  has_byte_tokens_ = std::all_of(byte_tokens_.begin(), byte_tokens_.end(),
                                 [](std::int32_t id) { return id >= 0; });
}

void PieceBpe::encode(std::string_view text, std::vector<std::int32_t>& ids) const {
  Word word(*this, text);
  word.split();
  word.merge();
  word.append_to(ids);
}

}  // namespace quire::text
