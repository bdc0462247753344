#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <quire/status.h>

#include "paging/page_allocator.h"
#include "prefix/page_key.h"

namespace quire {

// A place in the tree of cached pages: one page of tokens below its parent.
using CacheNode = std::int32_t;
constexpr CacheNode kNoNode = -1;

// How much of a prompt the cache holds.
struct PrefixMatch {
  std::vector<CacheNode> pages;  // whole pages that can be used, from the start
  CacheNode inside = kNoNode;    // the next page begins like this node's: copy ...
  int inside_tokens = 0;         // ... so many tokens of it
  int tokens = 0;                // all of them
  int known_pages = 0;  // whole pages in the tree, usable or not (a window page may be gone)
};

// Finds pages again by what they hold. A tree: the root is a cache name (namespace, RoPE choice,
// tenant), each node below it one page of tokens with one page id for each KV group. A whole page
// is found by its key, a SHA-256 chain over name, parent and tokens; parent and tokens are compared
// as well, so a collision of keys is a miss. The last, partly filled page of a sequence is a leaf
// with fewer tokens. Nodes hold no reference to their pages; they mark them as cached, and the
// allocator keeps those that nobody uses in the order of last use.
//
// A node always has its pages of full groups (`windows` 0), so a full page can be evicted only from
// a leaf. Pages of window groups go one by one.
//
// Not thread-safe. The allocators outlive the cache. Only `match`, `pin_root`, `publish` and
// `publish_tail` need memory; after an exception out of one of the last three, `reset`.
class PrefixCache {
 public:
  // `allocators` and `windows` have one entry for each group.
  PrefixCache(int page_size, std::vector<int> windows, std::span<PageAllocator> allocators);

  // The longest usable prefix of at most `limit` tokens. `keys`: of the whole pages of `tokens`. A
  // match that ends at token p has the pages of [0, p) in full groups and of [p - w, p) in those
  // with a window of w.
  PrefixMatch match(std::string_view name, std::span<const std::int32_t> tokens,
                    std::span<const Digest> keys, int limit) const;

  // The root of a name, pinned; made if it is not there.
  CacheNode pin_root(std::string_view name);
  // A pinned node stays, so that more can be published below it. Its pages may still go.
  void pin(CacheNode node);
  void unpin(CacheNode node);

  // Registers a whole page below `parent`; `pages`: one for each group, in use. If the page is
  // there already, it keeps its own pages and takes those it lacks. kNoNode after a collision of
  // keys.
  CacheNode publish(CacheNode parent, const Digest& key, std::span<const std::int32_t> tokens,
                    std::span<const PageId> pages);
  // Registers a partly filled page, unless something that begins with its tokens is there.
  void publish_tail(CacheNode parent, std::span<const std::int32_t> tokens,
                    std::span<const PageId> pages);

  PageId page(CacheNode node, int group) const { return pages_[slot(node) * groups() + at(group)]; }

  // Forgets the idle page of `group` that was used first (of full groups: on which no other
  // stands), which makes it free. False if there is none.
  bool evict(int group);
  // Forgets every idle page.
  void clear();
  // Forgets everything, pins included: the allocators have been reset. Needs no memory.
  void reset() noexcept;

  // Changes whenever a match may have another result.
  std::uint64_t version() const { return version_; }
  int node_count() const { return node_count_; }

  // Recomputes keys, links, order and page marks; the first contradiction in words.
  // `pins`: expected number of pins of each node, by node id; others have none.
  Status check(const std::unordered_map<CacheNode, int>& pins) const;

 private:
  struct Node {
    bool used = false;
    bool keyed = false;  // a whole page, in by_key_
    int token_count = 0;
    int pins = 0;
    CacheNode parent = kNoNode;
    std::vector<CacheNode> children;  // sorted by their tokens
    Digest key{};
    std::string name;  // of a root
  };

  static std::size_t at(int i) { return static_cast<std::size_t>(i); }
  static std::size_t slot(CacheNode node) { return static_cast<std::size_t>(node); }
  std::size_t groups() const { return windows_.size(); }
  Node& node(CacheNode id) { return nodes_[slot(id)]; }
  const Node& node(CacheNode id) const { return nodes_[slot(id)]; }
  std::span<const std::int32_t> tokens(CacheNode id) const;
  PageId& page_slot(CacheNode id, std::size_t group) { return pages_[slot(id) * groups() + group]; }

  CacheNode find(const Digest& key, CacheNode parent, std::span<const std::int32_t> tokens) const;
  bool holds(CacheNode id, CacheNode parent, std::span<const std::int32_t> tokens) const;
  std::size_t child_position(CacheNode parent, std::span<const std::int32_t> tokens) const;
  CacheNode most_common_child(CacheNode parent, std::span<const std::int32_t> tokens,
                              int* common) const;
  bool holds_windows(std::span<const CacheNode> path, CacheNode inside, int end) const;

  CacheNode add_node();
  CacheNode add_page(CacheNode parent, std::span<const std::int32_t> tokens,
                     std::span<const PageId> pages);
  void drop_covered(CacheNode parent, std::span<const std::int32_t> tokens);
  bool has_pages(CacheNode id) const;
  void forget_page(CacheNode id, std::size_t group);
  void forget_all_pages(CacheNode id);
  void remove_unused(CacheNode id);

  int page_size_;
  std::vector<int> windows_;
  std::span<PageAllocator> allocators_;
  bool has_full_group_ = false;
  std::vector<Node> nodes_;
  std::vector<std::int32_t> tokens_;           // [node][page_size]
  std::vector<PageId> pages_;                  // [node][group]
  std::vector<std::vector<CacheNode>> owner_;  // [group][page]: the node that registered it
  std::vector<CacheNode> unused_;
  std::unordered_map<Digest, CacheNode, DigestHash> by_key_;
  std::unordered_map<std::string, CacheNode> roots_;
  std::uint64_t version_ = 0;
  int node_count_ = 0;
};

}  // namespace quire
