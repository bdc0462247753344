#include "cpu/kv_layout.h"

#include "base/checked.h"

namespace quire::cpu {
namespace {

std::size_t element_bytes(KvType type) {
  switch (type) {
    case KvType::f32:
      return 4;
    case KvType::f16:
      return 2;
    case KvType::bf16:
      return 2;
    case KvType::int8:
      return 1;
    case KvType::fp8:  // refused before
      break;
  }
  return 4;
}

}  // namespace

KvLayout kv_layout(KvType type, int page_size, int head_size) {
  const auto tokens = static_cast<std::size_t>(page_size);
  const std::size_t part = round_up<std::size_t>(element_bytes(type) * tokens * head_size, 64);
  const std::size_t scales = type == KvType::int8 ? round_up<std::size_t>(4 * tokens, 64) : 0;
  KvLayout layout{type, page_size, head_size};
  layout.values = part;
  layout.key_scales = 2 * part;
  layout.value_scales = 2 * part + scales;
  layout.head_bytes = 2 * part + 2 * scales;
  return layout;
}

KvLayout paired_kv_layout(int page_size, int head_size) {
  // An odd last element of a key is paired with zero.
  KvLayout layout = kv_layout(KvType::bf16, page_size, round_up(head_size, 2));
  layout.head_size = head_size;
  layout.paired = true;
  return layout;
}

}  // namespace quire::cpu
