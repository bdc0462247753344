#include "prefix/page_key.h"

#include <fmt/format.h>

namespace quire {

std::string cache_name(std::string_view cache_namespace, int rope_choice, std::string_view tenant) {
  return fmt::format("{}:{}:{}:{}", cache_namespace.size(), cache_namespace, rope_choice, tenant);
}

Digest root_key(std::string_view name) {
  return Sha256().update(std::as_bytes(std::span(name))).finish();
}

Digest page_key(const Digest& parent, std::span<const std::int32_t> tokens) {
  return Sha256().update(std::as_bytes(std::span(parent))).update(std::as_bytes(tokens)).finish();
}

PageKeys::PageKeys(std::string_view name) : root_(root_key(name)) {}

void PageKeys::extend(std::span<const std::int32_t> tokens, int page_size) {
  const std::size_t size = static_cast<std::size_t>(page_size);
  for (std::size_t page = keys_.size(); (page + 1) * size <= tokens.size(); ++page) {
    keys_.push_back(page_key(page == 0 ? root_ : keys_.back(), tokens.subspan(page * size, size)));
  }
}

}  // namespace quire
