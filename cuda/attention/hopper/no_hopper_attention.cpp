#include "attention/hopper/decode.h"
#include "attention/hopper/hopper_attention.h"
#include "attention/hopper/prefix.h"
#include "base/error.h"

// In place of the Hopper kernels in builds without sm_90a.
namespace quire::cuda {

bool hopper_attention_takes(int, const PagedAttentionCall&) {
  return false;
}

HopperShare hopper_share(const Launch&, const PagedAttentionCall&) {
  return {};
}

std::size_t hopper_workspace_bytes(int, int, int) {
  return 0;
}

Status list_hopper_tiles(const Launch&, const PagedAttentionCall&, const HopperOptions&) {
  return error(StatusCode::unsupported, "Hopper attention: not in this build");
}

Status hopper_attention(const Launch&, const PagedAttentionCall&, const HopperOptions&) {
  return error(StatusCode::unsupported, "Hopper attention: not in this build");
}

int hopper_prefix_block(const Launch&, const PagedAttentionCall&) {
  return 0;
}

hopper::TileList hopper_prefix_tiles(const PagedAttentionCall&, std::byte*) {
  return {};
}

Status hopper_prefix(const Launch&, const PagedAttentionCall&, const AttentionArgs&,
                     const hopper::TileList&) {
  return error(StatusCode::unsupported, "Hopper attention: not in this build");
}

int hopper_decode_blocks_per_sm(const Launch&, const PagedAttentionCall&) {
  return 0;
}

Status hopper_decode(const Launch&, const PagedAttentionCall&, const AttentionArgs&) {
  return error(StatusCode::unsupported, "Hopper attention: not in this build");
}

}  // namespace quire::cuda
