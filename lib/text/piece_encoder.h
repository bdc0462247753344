#pragma once

#include <memory>

#include "text/model_proto.h"
#include "text/segment_encoder.h"

namespace quire::text {

// An encoder by the pieces of a byte-pair model and its flags about spaces; keeps no view into it.
// Each segment counts as a text of its own.
std::unique_ptr<SegmentEncoder> make_piece_encoder(const PieceModel& model);

}  // namespace quire::text
