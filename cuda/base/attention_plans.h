#pragma once

#include <cstddef>
#include <vector>

namespace quire::cuda {

// The attention plan of each KV group, made by the first of its layers in a pass.
class AttentionPlans {
 public:
  AttentionPlans() = default;
  AttentionPlans(std::byte* memory, std::size_t stride, int groups)
      : memory_(memory), stride_(stride), made_(static_cast<std::size_t>(groups)) {}

  std::byte* memory(int group) const { return memory_ + stride_ * static_cast<std::size_t>(group); }
  bool holds(int group, int heads, int kv_heads, int window) const {
    const For& plan = made_[static_cast<std::size_t>(group)];
    return plan.heads == heads && plan.kv_heads == kv_heads && plan.window == window;
  }
  void set(int group, int heads, int kv_heads, int window) {
    made_[static_cast<std::size_t>(group)] = {heads, kv_heads, window};
  }
  // A new pass.
  void forget() { made_.assign(made_.size(), {}); }

 private:
  struct For {
    int heads = 0, kv_heads = 0, window = 0;
  };
  std::byte* memory_ = nullptr;
  std::size_t stride_ = 0;
  std::vector<For> made_;
};

}  // namespace quire::cuda
