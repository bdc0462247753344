#include "prefix/prefix_cache.h"

#include <algorithm>
#include <utility>

namespace quire {
namespace {

int common_prefix(std::span<const std::int32_t> a, std::span<const std::int32_t> b) {
  const std::size_t end = std::min(a.size(), b.size());
  std::size_t i = 0;
  while (i < end && a[i] == b[i]) ++i;
  return static_cast<int>(i);
}

bool starts_with(std::span<const std::int32_t> all, std::span<const std::int32_t> start) {
  return all.size() >= start.size() && std::equal(start.begin(), start.end(), all.begin());
}

}  // namespace

PrefixCache::PrefixCache(int page_size, std::vector<int> windows,
                         std::span<PageAllocator> allocators)
    : page_size_(page_size), windows_(std::move(windows)), allocators_(allocators) {
  std::size_t most = 0;
  for (std::size_t g = 0; g < groups(); ++g) {
    has_full_group_ = has_full_group_ || windows_[g] == 0;
    owner_.emplace_back(at(allocators_[g].page_count()), kNoNode);
    most = std::max(most, owner_[g].size());
  }
  // About as many nodes as there can be: growing would move them all, again and again.
  nodes_.reserve(most);
  unused_.reserve(most);
  tokens_.reserve(most * at(page_size_));
  pages_.reserve(most * groups());
  by_key_.reserve(most);
}

std::span<const std::int32_t> PrefixCache::tokens(CacheNode id) const {
  return std::span(tokens_).subspan(slot(id) * at(page_size_), at(node(id).token_count));
}

CacheNode PrefixCache::find(const Digest& key, CacheNode parent,
                            std::span<const std::int32_t> page_tokens) const {
  const auto found = by_key_.find(key);
  const bool same = found != by_key_.end() && holds(found->second, parent, page_tokens);
  return same ? found->second : kNoNode;
}

bool PrefixCache::holds(CacheNode id, CacheNode parent,
                        std::span<const std::int32_t> page_tokens) const {
  const auto known = tokens(id);
  return node(id).parent == parent &&
         std::equal(known.begin(), known.end(), page_tokens.begin(), page_tokens.end());
}

// Where a child with these tokens stands, or would stand, among the sorted children.
std::size_t PrefixCache::child_position(CacheNode parent,
                                        std::span<const std::int32_t> page_tokens) const {
  const auto& children = node(parent).children;
  const auto place = std::lower_bound(children.begin(), children.end(), page_tokens,
                                      [this](CacheNode child, std::span<const std::int32_t> value) {
                                        const auto known = tokens(child);
                                        return std::lexicographical_compare(
                                            known.begin(), known.end(), value.begin(), value.end());
                                      });
  return static_cast<std::size_t>(place - children.begin());
}

// In sorted order, what has most in common with a value stands next to it.
CacheNode PrefixCache::most_common_child(CacheNode parent,
                                         std::span<const std::int32_t> page_tokens,
                                         int* common) const {
  const auto& children = node(parent).children;
  const std::size_t place = child_position(parent, page_tokens);
  CacheNode best = kNoNode;
  *common = 0;
  for (std::size_t i = place > 0 ? place - 1 : 0; i < children.size() && i <= place; ++i) {
    const int n = common_prefix(tokens(children[i]), page_tokens);
    if (n > *common) *common = n, best = children[i];
  }
  return best;
}

// Whether window groups have the pages of [end - w, end): `path` from the start, then `inside`.
bool PrefixCache::holds_windows(std::span<const CacheNode> path, CacheNode inside, int end) const {
  for (std::size_t g = 0; g < groups(); ++g) {
    if (windows_[g] == 0) continue;
    if (inside != kNoNode && page(inside, static_cast<int>(g)) == kNoPage) return false;
    const std::size_t first = at(std::max(0, end - windows_[g]) / page_size_);
    for (std::size_t i = path.size(); i > first; --i) {
      if (page(path[i - 1], static_cast<int>(g)) == kNoPage) return false;
    }
  }
  return true;
}

PrefixMatch PrefixCache::match(std::string_view name, std::span<const std::int32_t> prompt,
                               std::span<const Digest> keys, int limit) const {
  PrefixMatch result;
  const auto root = roots_.find(std::string(name));
  if (root == roots_.end()) return result;
  limit = std::min(limit, static_cast<int>(prompt.size()));

  std::vector<CacheNode> path;
  CacheNode last = root->second;
  while (path.size() < keys.size() && static_cast<int>(path.size()) * page_size_ < limit) {
    const CacheNode next =
        find(keys[path.size()], last, prompt.subspan(path.size() * at(page_size_), at(page_size_)));
    if (next == kNoNode) break;
    path.push_back(next);
    last = next;
  }
  result.known_pages = static_cast<int>(path.size());

  // First choice: an end inside a page, either of a whole page that `limit` cuts or of a sibling.
  const bool cut = static_cast<int>(path.size()) * page_size_ > limit;
  if (cut) path.pop_back();
  const int whole = static_cast<int>(path.size()) * page_size_;
  CacheNode inside = cut ? last : kNoNode;
  int common = limit - whole;
  if (!cut) inside = most_common_child(last, prompt.subspan(at(whole), at(common)), &common);
  if (inside != kNoNode && common > 0 && holds_windows(path, inside, whole + common)) {
    result.inside = inside;
    result.inside_tokens = common;
  } else {
    while (!path.empty() &&
           !holds_windows(path, kNoNode, static_cast<int>(path.size()) * page_size_)) {
      path.pop_back();
    }
  }
  result.tokens = static_cast<int>(path.size()) * page_size_ + result.inside_tokens;
  result.pages = std::move(path);
  return result;
}

CacheNode PrefixCache::add_node() {
  CacheNode id;
  if (unused_.empty()) {
    id = static_cast<CacheNode>(nodes_.size());
    nodes_.emplace_back();
    unused_.reserve(nodes_.capacity());  // so that giving up a node needs no memory
    tokens_.resize(tokens_.size() + at(page_size_));
    pages_.resize(pages_.size() + groups(), kNoPage);
  } else {
    id = unused_.back();
    unused_.pop_back();
  }
  node(id).used = true;
  ++node_count_;
  return id;
}

CacheNode PrefixCache::pin_root(std::string_view name) {
  const auto [entry, added] = roots_.try_emplace(std::string(name), kNoNode);
  if (added) {
    entry->second = add_node();
    node(entry->second).name = name;
    node(entry->second).key = root_key(name);
  }
  pin(entry->second);
  return entry->second;
}

void PrefixCache::pin(CacheNode id) {
  ++node(id).pins;
}

void PrefixCache::unpin(CacheNode id) {
  --node(id).pins;
  remove_unused(id);
}

CacheNode PrefixCache::add_page(CacheNode parent, std::span<const std::int32_t> page_tokens,
                                std::span<const PageId> pages) {
  const CacheNode id = add_node();
  std::copy(page_tokens.begin(), page_tokens.end(),
            tokens_.begin() + static_cast<std::ptrdiff_t>(slot(id) * at(page_size_)));
  node(id).token_count = static_cast<int>(page_tokens.size());
  node(id).parent = parent;
  auto& siblings = node(parent).children;
  siblings.insert(
      siblings.begin() + static_cast<std::ptrdiff_t>(child_position(parent, page_tokens)), id);
  for (std::size_t g = 0; g < groups(); ++g) {
    if (!allocators_[g].set_cached(pages[g])) continue;
    page_slot(id, g) = pages[g];
    owner_[g][at(pages[g])] = id;
  }
  ++version_;
  return id;
}

// Gives up a partly filled page whose tokens are the start of a page that is about to be added.
void PrefixCache::drop_covered(CacheNode parent, std::span<const std::int32_t> page_tokens) {
  const std::size_t place = child_position(parent, page_tokens);
  if (place == 0) return;
  const CacheNode before = node(parent).children[place - 1];
  if (node(before).keyed || node(before).pins > 0 || !starts_with(page_tokens, tokens(before))) {
    return;
  }
  for (std::size_t g = 0; g < groups(); ++g) {
    if (allocators_[g].references(page_slot(before, g)) > 0) return;
  }
  forget_all_pages(before);
  remove_unused(before);
}

CacheNode PrefixCache::publish(CacheNode parent, const Digest& key,
                               std::span<const std::int32_t> page_tokens,
                               std::span<const PageId> pages) {
  const auto [entry, added] = by_key_.try_emplace(key, kNoNode);
  if (!added) {
    const CacheNode known = entry->second;
    if (!holds(known, parent, page_tokens)) return kNoNode;
    for (std::size_t g = 0; g < groups(); ++g) {
      if (page_slot(known, g) != kNoPage || !allocators_[g].set_cached(pages[g])) continue;
      page_slot(known, g) = pages[g];
      owner_[g][at(pages[g])] = known;
      ++version_;
    }
    return known;
  }
  for (std::size_t g = 0; g < groups(); ++g) {
    if (pages[g] != kNoPage && !allocators_[g].cached(pages[g])) continue;
    by_key_.erase(entry);
    return kNoNode;
  }
  drop_covered(parent, page_tokens);
  const CacheNode id = add_page(parent, page_tokens, pages);
  node(id).keyed = true;
  node(id).key = key;
  entry->second = id;
  return id;
}

void PrefixCache::publish_tail(CacheNode parent, std::span<const std::int32_t> page_tokens,
                               std::span<const PageId> pages) {
  for (std::size_t g = 0; g < groups(); ++g) {
    if (pages[g] == kNoPage || allocators_[g].cached(pages[g])) return;
  }
  const auto& children = node(parent).children;
  const std::size_t place = child_position(parent, page_tokens);
  if (place < children.size() && starts_with(tokens(children[place]), page_tokens)) {
    const CacheNode covering = children[place];
    bool complete = true;
    for (std::size_t g = 0; g < groups(); ++g) complete &= page_slot(covering, g) != kNoPage;
    if (complete) return;
    // The same tokens twice would have no order; a longer page that lacks some group may stand.
    if (tokens(covering).size() == page_tokens.size()) return;
  }
  drop_covered(parent, page_tokens);
  add_page(parent, page_tokens, pages);
}

bool PrefixCache::has_pages(CacheNode id) const {
  for (std::size_t g = 0; g < groups(); ++g) {
    if (page(id, static_cast<int>(g)) != kNoPage) return true;
  }
  return false;
}

void PrefixCache::forget_page(CacheNode id, std::size_t group) {
  PageId& page = page_slot(id, group);
  if (page == kNoPage) return;
  owner_[group][at(page)] = kNoNode;
  allocators_[group].clear_cached(page);
  page = kNoPage;
  ++version_;
}

void PrefixCache::forget_all_pages(CacheNode id) {
  for (std::size_t g = 0; g < groups(); ++g) forget_page(id, g);
}

// Removes a node that nothing stands on, then its ancestors as far as they have become such.
void PrefixCache::remove_unused(CacheNode id) {
  while (id != kNoNode && node(id).children.empty() && node(id).pins == 0 && !has_pages(id)) {
    Node& old = node(id);
    const CacheNode parent = old.parent;
    if (parent == kNoNode) {
      roots_.erase(old.name);
    } else {
      auto& siblings = node(parent).children;
      siblings.erase(siblings.begin() +
                     static_cast<std::ptrdiff_t>(child_position(parent, tokens(id))));
    }
    if (old.keyed) by_key_.erase(old.key);
    old = Node{};
    unused_.push_back(id);
    --node_count_;
    id = parent;
  }
}

bool PrefixCache::evict(int group) {
  const std::size_t g = at(group);
  const PageAllocator& allocator = allocators_[g];
  for (PageId page = allocator.first_idle(); page != kNoPage; page = allocator.next_idle(page)) {
    const CacheNode id = owner_[g][at(page)];
    if (windows_[g] > 0) {
      forget_page(id, g);
    } else if (node(id).children.empty() && node(id).pins == 0) {
      forget_all_pages(id);
    } else {
      continue;  // another page stands on it, and goes first
    }
    remove_unused(id);
    return true;
  }
  return false;
}

void PrefixCache::reset() noexcept {
  nodes_.clear();
  tokens_.clear();
  pages_.clear();
  for (std::vector<CacheNode>& owner : owner_) std::fill(owner.begin(), owner.end(), kNoNode);
  unused_.clear();
  by_key_.clear();
  roots_.clear();
  node_count_ = 0;
  ++version_;
}

void PrefixCache::clear() {
  for (std::size_t g = 0; g < groups(); ++g) {
    while (evict(static_cast<int>(g))) {
    }
  }
}

}  // namespace quire
