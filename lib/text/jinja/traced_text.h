#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace quire::text::jinja {

enum class Trust : bool {
  untrusted,  // came from the caller's messages
  trusted     // came from the template
};

// Python's Markup: HTML, by the filter `safe` or `escape`. A plain string added to it is escaped.
enum class Markup : bool { no, yes };

// A string that knows which of its bytes came from the template. Held as the trust of the first
// byte and the offsets where trust changes, so that a string of one origin costs nothing extra.
class TracedText {
 public:
  TracedText() = default;
  TracedText(std::string bytes, Trust trust) : bytes_(std::move(bytes)), first_(trust) {}

  std::string_view view() const { return bytes_; }
  std::size_t size() const { return bytes_.size(); }
  bool empty() const { return bytes_.empty(); }
  Trust trust_at(std::size_t offset) const;

  void append(std::string_view bytes, Trust trust);
  void append(const TracedText& other) { append_slice(other, 0, other.size()); }
  // `offset` and `length` must lie inside `other`, which must be another object.
  void append_slice(const TracedText& other, std::size_t offset, std::size_t length);
  TracedText slice(std::size_t offset, std::size_t length) const;  // of markup: markup

  Markup markup() const { return markup_; }
  void set_markup(Markup markup) { markup_ = markup; }

  // Calls visit(bytes, trust) for each maximal run of one trust.
  template <class Visit>
  void for_each_run(Visit&& visit) const {
    Trust trust = first_;
    std::size_t start = 0;
    for (std::size_t i = 0; i <= changes_.size() && start < bytes_.size(); ++i) {
      std::size_t end = i < changes_.size() ? changes_[i] : bytes_.size();
      visit(std::string_view(bytes_).substr(start, end - start), trust);
      start = end;
      trust = opposite(trust);
    }
  }

  // Bytes of memory that it holds.
  std::size_t cost() const;

 private:
  static Trust opposite(Trust trust) {
    return trust == Trust::trusted ? Trust::untrusted : Trust::trusted;
  }
  Trust last() const { return changes_.size() % 2 ? opposite(first_) : first_; }

  std::string bytes_;
  Trust first_ = Trust::trusted;
  Markup markup_ = Markup::no;
  std::vector<std::size_t> changes_;  // ascending, each in (0, size)
};

}  // namespace quire::text::jinja
