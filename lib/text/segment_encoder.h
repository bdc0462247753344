#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include <quire/status.h>

namespace quire::text {

enum class SegmentPosition { start_of_text, after_added_token };

// Encodes the text between added tokens. Immutable: safe from any thread.
class SegmentEncoder {
 public:
  virtual ~SegmentEncoder() = default;
  // Appends ids. `text` is well-formed UTF-8, not empty, and shorter than 2^31 bytes.
  virtual Status encode(std::string_view text, SegmentPosition position,
                        std::vector<std::int32_t>& ids) const = 0;
};

}  // namespace quire::text
