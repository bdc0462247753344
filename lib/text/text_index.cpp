#include "text/text_index.h"

#include <functional>

namespace quire::text {
namespace {

// At most two thirds of the slots are taken.
std::size_t slots_for(std::size_t count) {
  std::size_t slots = 16;
  while (count * 3 > slots * 2) slots *= 2;
  return slots;
}

}  // namespace

TextIndex::TextIndex(std::size_t count, std::size_t bytes) : slots_(slots_for(count), absent) {
  ends_.reserve(count);
  bytes_.reserve(bytes);
}

std::size_t TextIndex::slot_of(std::string_view text) const {
  const std::size_t mask = slots_.size() - 1;
  std::size_t slot = std::hash<std::string_view>()(text) & mask;
  while (slots_[slot] != absent && (*this)[slots_[slot]] != text) slot = (slot + 1) & mask;
  return slot;
}

TextIndex::Inserted TextIndex::insert(std::string_view text) {
  std::size_t slot = slot_of(text);
  if (slots_[slot] != absent) return {slots_[slot], false};
  if ((size() + 1) * 3 > slots_.size() * 2) {
    grow();
    slot = slot_of(text);
  }
  const auto number = static_cast<std::int32_t>(size());
  bytes_ += text;
  ends_.push_back(bytes_.size());
  slots_[slot] = number;
  return {number, true};
}

void TextIndex::grow() {
  slots_.assign(slots_.size() * 2, absent);
  for (std::int32_t number = 0; number < static_cast<std::int32_t>(size()); ++number) {
    slots_[slot_of((*this)[number])] = number;
  }
}

}  // namespace quire::text
