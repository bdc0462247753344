#pragma once

#include <memory>
#include <string_view>

#include <quire/status.h>

#include "text/segment_encoder.h"

namespace quire::text {

// Which segments get a space in front, beside what the model itself adds.
enum class PrefixSpace { never, start_of_text };

struct SentencePieceOptions {
  PrefixSpace prefix = PrefixSpace::never;
  int vocabulary_size = 0;  // ids from here on are dropped
};

// An encoder by the sentencepiece library, which knows every kind of model and normaliser. `proto`
// is a serialized ModelProto that has passed read_model_proto: the library is not safe with others.
Result<std::unique_ptr<SegmentEncoder>> make_sentencepiece_encoder(std::string_view proto,
                                                                   SentencePieceOptions options);

}  // namespace quire::text
