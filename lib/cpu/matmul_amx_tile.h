#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "cpu/matmul_unroll.h"

// Tile registers of AMX. Only for files compiled for it.

namespace quire::cpu {

struct MatmulArgs;
void multiply_amx_integer(const MatmulArgs& args);
void multiply_amx_bfloat(const MatmulArgs& args);

namespace {

constexpr int kTileRows = 16;  // at most, each of 64 bytes

// Shapes of the eight tiles, as ldtilecfg reads them.
struct alignas(64) TileShapes {
  std::uint8_t palette = 1;
  std::uint8_t start_row = 0;
  std::uint8_t reserved[14] = {};
  std::uint16_t row_bytes[16] = {};
  std::uint8_t rows[16] = {};

  void set(int tile, int tile_rows, int bytes) {
    rows[tile] = static_cast<std::uint8_t>(tile_rows);
    row_bytes[tile] = static_cast<std::uint16_t>(bytes);
  }
};
static_assert(sizeof(TileShapes) == 64);

// The compiler does not know that tile instructions read memory: what was stored before is stored
// now.
QUIRE_ALWAYS_INLINE inline void finish_stores() {
  asm volatile("" ::: "memory");
}

inline void configure(const TileShapes& shapes) {
  finish_stores();
  _tile_loadconfig(&shapes);
}

}  // namespace
}  // namespace quire::cpu
