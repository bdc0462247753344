#include <algorithm>

#include "base/error.h"
#include "prefix/prefix_cache.h"

namespace quire {

Status PrefixCache::check(const std::unordered_map<CacheNode, int>& pins) const {
  std::vector<int> marked(groups(), 0);
  int used = 0;
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    const CacheNode id = static_cast<CacheNode>(i);
    const Node& n = nodes_[i];
    if (!n.used) continue;
    ++used;
    const auto expected = pins.find(id);
    const int wanted = expected == pins.end() ? 0 : expected->second;
    if (n.pins != wanted) {
      return error(StatusCode::internal, "cache node {} has {} pins, not {}", id, n.pins, wanted);
    }
    if (n.parent == kNoNode) {
      if (n.key != root_key(n.name))
        return error(StatusCode::internal, "root {} has another key", id);
    } else if (n.keyed) {
      const auto found = by_key_.find(n.key);
      if (found == by_key_.end() || found->second != id ||
          n.key != page_key(node(n.parent).key, tokens(id))) {
        return error(StatusCode::internal, "the key of cache node {} is not that of its tokens",
                     id);
      }
    }
    const bool whole = n.token_count == page_size_;
    if (n.parent != kNoNode && n.keyed && !whole) {
      return error(StatusCode::internal, "cache node {} has {} tokens of {}", id, n.token_count,
                   page_size_);
    }
    for (CacheNode child : n.children) {
      if (!node(child).used || node(child).parent != id) {
        return error(StatusCode::internal, "cache node {} is no child of {}", child, id);
      }
    }
    const bool sorted =
        std::is_sorted(n.children.begin(), n.children.end(), [this](CacheNode a, CacheNode b) {
          const auto x = tokens(a), y = tokens(b);
          return std::lexicographical_compare(x.begin(), x.end(), y.begin(), y.end());
        });
    if (!sorted) return error(StatusCode::internal, "children of cache node {} have no order", id);
    if (n.children.empty() && n.pins == 0 && !has_pages(id)) {
      return error(StatusCode::internal, "cache node {} is kept for nothing", id);
    }
    for (std::size_t g = 0; g < groups(); ++g) {
      const PageId page = this->page(id, static_cast<int>(g));
      if (page == kNoPage) {
        if (windows_[g] == 0 && n.parent != kNoNode) {
          return error(StatusCode::internal, "cache node {} lacks its page of group {}", id, g);
        }
        continue;
      }
      ++marked[g];
      if (owner_[g][at(page)] != id || !allocators_[g].cached(page)) {
        return error(StatusCode::internal, "page {} of group {} is not marked as node {}'s", page,
                     g, id);
      }
    }
  }
  if (used != node_count_) {
    return error(StatusCode::internal, "{} cache nodes, {} counted", used, node_count_);
  }
  for (std::size_t g = 0; g < groups(); ++g) {
    int cached = 0;
    for (PageId page = 0; page < allocators_[g].page_count(); ++page) {
      cached += allocators_[g].cached(page) ? 1 : 0;
    }
    if (cached != marked[g]) {
      return error(StatusCode::internal, "group {}: {} cached pages, {} in the tree", g, cached,
                   marked[g]);
    }
  }
  return {};
}

}  // namespace quire
