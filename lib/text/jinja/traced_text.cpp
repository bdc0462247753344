#include "text/jinja/traced_text.h"

#include <algorithm>

namespace quire::text::jinja {

Trust TracedText::trust_at(std::size_t offset) const {
  auto passed = std::upper_bound(changes_.begin(), changes_.end(), offset) - changes_.begin();
  return passed % 2 ? opposite(first_) : first_;
}

void TracedText::append(std::string_view bytes, Trust trust) {
  if (bytes.empty()) return;
  if (bytes_.empty()) {
    first_ = trust;
    changes_.clear();
  } else if (last() != trust) {
    changes_.push_back(bytes_.size());
  }
  bytes_.append(bytes);
}

void TracedText::append_slice(const TracedText& other, std::size_t offset, std::size_t length) {
  auto change = std::upper_bound(other.changes_.begin(), other.changes_.end(), offset);
  Trust trust = (change - other.changes_.begin()) % 2 ? opposite(other.first_) : other.first_;
  std::size_t end = offset + length;
  while (offset < end) {
    std::size_t stop = change == other.changes_.end() ? end : std::min(*change++, end);
    append(other.view().substr(offset, stop - offset), trust);
    offset = stop;
    trust = opposite(trust);
  }
}

TracedText TracedText::slice(std::size_t offset, std::size_t length) const {
  TracedText result;
  result.append_slice(*this, offset, length);
  result.markup_ = markup_;
  return result;
}

std::size_t TracedText::cost() const {
  return sizeof(TracedText) + bytes_.capacity() + changes_.capacity() * sizeof(std::size_t);
}

}  // namespace quire::text::jinja
