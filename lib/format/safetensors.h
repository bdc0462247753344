#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <quire/status.h>

#include "tensor/tensor_view.h"

namespace quire::format {

// A tensor that is well placed in its file but cannot be read.
struct UnreadableTensor {
  std::string name;
  std::string why;  // "dtype I64, readable are ..."
};

struct SafetensorsFile {
  std::vector<TensorView> tensors;
  std::vector<UnreadableTensor> unreadable;
};

// The tensors of a safetensors file (the format of huggingface/safetensors), as views into `bytes`,
// which must outlive them. All together cover the data without gap, overlap or tail. Readable are
// F32, F16, BF16 and U8 of at most four dimensions; a model may hold others that it does not need.
// `file` is the name for messages.
Result<SafetensorsFile> parse_safetensors(std::span<const std::byte> bytes,
                                          const std::string& file);

// One line of model.safetensors.index.json: the shard (a plain file name) that stores a tensor.
struct ShardEntry {
  std::string tensor;
  std::string shard;
};
// The weight map of an index, in the order of the text. Shard names hold no path.
Result<std::vector<ShardEntry>> parse_shard_index(std::string_view text, const std::string& file);

}  // namespace quire::format
