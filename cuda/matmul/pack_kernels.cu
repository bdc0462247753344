#include "matmul/pack_kernels.h"

#include <cuda_bf16.h>

#include "matmul/stored_blocks.cuh"

namespace quire::cuda {
namespace {

constexpr int kThreads = 256;

struct Stored : StoredRows {
  __device__ const Byte* row(std::int64_t r) const {
    if (heads > 0) {
      const std::int64_t size = rows / heads, head = r / size, within = r % size;
      r = head * size + 2 * (within % (size / 2)) + within / (size / 2);
    }
    return reinterpret_cast<const Byte*>(data) + r * row_bytes;
  }
};

__device__ std::uint32_t bfloat_bits(float value) {
  return __bfloat16_as_ushort(__float2bfloat16_rn(value));
}

// Rows of bfloat16; one thread for each element.
__global__ void pack_bfloat(Stored stored, std::int64_t padded_columns, std::int64_t padded_rows,
                            __nv_bfloat16* to) {
  const std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= padded_rows * padded_columns) return;
  const std::int64_t row = i / padded_columns, column = i % padded_columns;
  float value = 0;
  if (row < stored.rows && column < stored.columns) {
    value = stored_value(stored.type, stored.block, stored.block_bytes, stored.row(row), column);
  }
  to[i] = __float2bfloat16_rn(value);
}

// What one lane of a warp writes of a record.
struct Lane {
  std::int64_t panel, first_column;
  int lane;
  __device__ std::int64_t row(int pair) const {
    return panel * kPanelRows + lane / 4 + pair % 2 * 8;
  }
  __device__ std::int64_t column(int tile, int pair, int element) const {
    return first_column + tile * 16 + pair / 2 * 8 + lane % 4 * 2 + element;
  }
};

__device__ void write_floats(const Stored& stored, const Lane& lane, std::byte* record) {
  for (int word = 0; word < 32; ++word) {
    const int tile = word / 8, pair = word / 2 % 4, element = word % 2;
    const std::int64_t row = lane.row(pair), column = lane.column(tile, pair, element);
    const bool inside = row < stored.rows && column < stored.columns;
    const float value = inside ? stored_value(DType::f32, 1, 4, stored.row(row), column) : 0.0f;
    reinterpret_cast<float*>(record)[word / 4 * 128 + lane.lane * 4 + word % 4] = value;
  }
}

__device__ void write_codes(const Stored& stored, const Lane& lane, int bits, std::byte* record) {
  std::uint32_t words8[8] = {}, words4[4] = {}, words2[2] = {}, words1 = 0;
  const int low_bits = bits & 4, middle_bits = bits & 2;
  for (int tile = 0; tile < 4; ++tile) {
    for (int pair = 0; pair < 4; ++pair) {
      for (int element = 0; element < 2; ++element) {
        const std::int64_t row = lane.row(pair), column = lane.column(tile, pair, element);
        std::uint32_t code = 0;
        if (row < stored.rows && column < stored.columns) {
          const Byte* b = stored.row(row) + column / stored.block * stored.block_bytes;
          code = stored_code(stored.type, b, static_cast<int>(column % stored.block));
        }
        const int field = 4 * (tile % 2) + pair;
        words8[2 * tile + pair / 2] |= code << (8 * (pair % 2) + 16 * element);
        words4[tile] |= (code & 15) << (4 * pair + 16 * element);
        words2[tile / 2] |= (code >> low_bits & 3) << (2 * field + 16 * element);
        words1 |= (code >> (low_bits + middle_bits) & 1) << (4 * tile + pair + 16 * element);
      }
    }
  }
  if (bits == 8) {
    auto* to = reinterpret_cast<std::uint32_t*>(record);
    for (int word = 0; word < 8; ++word)
      to[word / 4 * 128 + lane.lane * 4 + word % 4] = words8[word];
    return;
  }
  if (bits & 4) {
    auto* to = reinterpret_cast<std::uint32_t*>(record) + lane.lane * 4;
    for (int word = 0; word < 4; ++word) to[word] = words4[word];
    record += 512;
  }
  if (bits & 2) {
    auto* to = reinterpret_cast<std::uint32_t*>(record) + lane.lane * 2;
    for (int word = 0; word < 2; ++word) to[word] = words2[word];
    record += 256;
  }
  if (bits & 1) reinterpret_cast<std::uint32_t*>(record)[lane.lane] = words1;
}

// The scales (and offsets) of rows lane / 4 and lane / 4 + 8; called by one lane of four.
__device__ void write_scales(const Stored& stored, const Lane& lane, WeightShape shape,
                             std::byte* scales) {
  const int words = shape.groups / 2 * (shape.offset ? 2 : 1);
  auto* to = reinterpret_cast<std::uint16_t*>(scales) + lane.lane / 4 * 4 * words;
  for (int half = 0; half < 2; ++half, to += 2 * words) {
    for (int group = 0; group < shape.groups; ++group) {
      const std::int64_t row = lane.row(half);
      const std::int64_t column = lane.first_column + kBlockColumns / shape.groups * group;
      StoredScale s;
      if (row < stored.rows && column < stored.columns) {
        const Byte* b = stored.row(row) + column / stored.block * stored.block_bytes;
        s = stored_scale(stored.type, b, static_cast<int>(column % stored.block));
      }
      to[group] = static_cast<std::uint16_t>(bfloat_bits(s.scale));
      if (shape.offset) {
        const float offset = s.minimum + s.scale * static_cast<float>(shape.centre);
        to[shape.groups + group] = static_cast<std::uint16_t>(bfloat_bits(offset));
      }
    }
  }
}

// Panels of records; one warp for each record.
__global__ void pack_records(Stored stored, WeightKind kind, int blocks, std::int64_t panels,
                             std::byte* to) {
  const std::int64_t record = std::int64_t{blockIdx.x} * (kThreads / 32) + threadIdx.x / 32;
  if (record >= panels * blocks) return;
  const Lane lane{record / blocks, record % blocks * kBlockColumns,
                  static_cast<int>(threadIdx.x % 32)};
  to += record * record_bytes(kind);
  if (kind == WeightKind::float32) return write_floats(stored, lane, to);
  const WeightShape shape = shape_of(kind);
  write_codes(stored, lane, shape.code_bits, to);
  if (lane.lane % 4 == 0) write_scales(stored, lane, shape, to + code_bytes(kind));
}

unsigned blocks_for(std::int64_t work, int each) {
  return static_cast<unsigned>((work + each - 1) / each);
}

}  // namespace

Status pack_rows(const Launch& launch, const StoredRows& rows, std::int64_t padded_rows,
                 std::int64_t padded_columns, __nv_bfloat16* to) {
  pack_bfloat<<<blocks_for(padded_rows * padded_columns, kThreads), kThreads, 0, launch.stream>>>(
      Stored{rows}, padded_columns, padded_rows, to);
  return status_of(cudaGetLastError(), "packing of a weight matrix");
}

Status pack_panels(const Launch& launch, const StoredRows& rows, WeightKind kind,
                   std::int64_t panels, int blocks, std::byte* to) {
  pack_records<<<blocks_for(panels * blocks, kThreads / 32), kThreads, 0, launch.stream>>>(
      Stored{rows}, kind, blocks, panels, to);
  return status_of(cudaGetLastError(), "packing of a weight matrix");
}

}  // namespace quire::cuda
