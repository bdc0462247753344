#pragma once

#include <memory>

#include "text/added_tokens.h"
#include "text/bpe_model.h"
#include "text/normalizer.h"
#include "text/pre_tokenizer.h"
#include "text/segment_encoder.h"

namespace quire::text {

// The steps of byte-pair encoding between added tokens.
struct BpePipeline {
  Normalizer normalizer;
  AddedTokenMatcher normalized_tokens;  // found after normalising; none of them special
  PreTokenizer pre_tokenizer;
  BpeModel model;
};

std::unique_ptr<SegmentEncoder> make_bpe_encoder(BpePipeline pipeline);

}  // namespace quire::text
