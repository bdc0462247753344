#pragma once

#include <quire/quire.h>

namespace examples {

// Puts the events of one request together.
class Collector {
 public:
  explicit Collector(int choices) { generation_.choices.resize(choices > 0 ? choices : 0); }

  void add(const quire::TokenEvent& event);
  // True when every choice has ended.
  bool done() const { return ended_ == generation_.choices.size(); }
  // Not ok if a choice ended in an error.
  const quire::Status& status() const { return status_; }
  const quire::Generation& generation() const { return generation_; }

 private:
  quire::Generation generation_;
  std::size_t ended_ = 0;
  quire::Status status_;
};

}  // namespace examples
