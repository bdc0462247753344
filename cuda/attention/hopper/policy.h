#pragma once

namespace quire::cuda::hopper {

// The shape of the forward kernel for a head size. A warpgroup computes 64 rows.
struct ForwardPolicy {
  int head_size;
  int warpgroups;     // that compute; one more brings the data
  int block_keys;     // of a step of the online softmax; a multiple of 16
  int query_stages;   // tiles that are known at a time; in 16 bits their queries are there too
  bool ping_pong;     // warpgroups issue products by turns
  bool lazy_rescale;  // see SoftmaxRows
  bool overlap;       // the softmax runs beside products of its own warpgroup too
  int producer_registers, consumer_registers;
  int element_bytes = 2;  // of keys and values
  int stages = 2;         // blocks of keys in shared memory, and as many of values
  bool prefix = false;    // computes keys that sequences share, see prefix.h

  constexpr bool fp8() const { return element_bytes == 1; }
  constexpr int most_stages() const { return stages > 2 ? stages : 2; }  // of anything
  constexpr int rows() const { return warpgroups * 64; }
  constexpr int threads() const { return (warpgroups + 1) * 128; }
  // A head's queries, or keys and values, lie in parts of one row of shared memory, which is 128
  // bytes where that divides the head, else 64.
  constexpr int query_row() const { return head_size % 64 == 0 ? 128 : 64; }
  constexpr int key_row() const { return head_size * element_bytes % 128 == 0 ? 128 : 64; }
};

// The policies, as types for nvcc's sake.
struct Forward64 {
  static constexpr ForwardPolicy kPolicy{64, 3, 128, 2, true, false, false, 32, 160};
};
// With more registers there is room for a cap.
struct Forward64Capped {
  static constexpr ForwardPolicy kPolicy{64, 2, 128, 2, true, false, false, 40, 232};
};
// A third warpgroup hides more than longer blocks would, for which it leaves no registers.
struct Forward128 {
  static constexpr ForwardPolicy kPolicy{128, 3, 80, 2, false, true, false, 32, 160, 2, 3};
};
struct Forward96 {
  static constexpr ForwardPolicy kPolicy{96, 3, 96, 2, false, true, false, 32, 160, 2, 3};
};
struct Forward192 {
  static constexpr ForwardPolicy kPolicy{192, 2, 112, 1, false, true, true, 40, 232};
};
struct Forward192Capped {
  static constexpr ForwardPolicy kPolicy{192, 2, 96, 1, false, true, true, 40, 232};
};
struct Forward256 {
  static constexpr ForwardPolicy kPolicy{256, 2, 80, 1, false, true, true, 40, 232};
};
struct Forward256Capped {
  static constexpr ForwardPolicy kPolicy{256, 2, 64, 1, false, true, true, 40, 232};
};

// Keys and values in fp8: see Fp8Consumer. The short ones are for short prompts and for caps.
struct Fp8Forward64 {
  static constexpr ForwardPolicy kPolicy{64, 3, 128, 2, false, false, true, 32, 160, 1};
};
struct Fp8Forward64Short {
  static constexpr ForwardPolicy kPolicy{64, 2, 128, 2, false, false, true, 40, 232, 1};
};
struct Fp8Forward128 {
  static constexpr ForwardPolicy kPolicy{128, 3, 96, 2, false, false, true, 32, 160, 1};
};
struct Fp8Forward128Short {
  static constexpr ForwardPolicy kPolicy{128, 2, 96, 2, false, false, true, 40, 232, 1};
};

// Rows as many as PrefixTiles has for a tile.
struct Prefix64 {
  static constexpr ForwardPolicy kPolicy{64, 2, 128, 2, true, false, false, 40, 232, 2, 2, true};
};
struct Prefix128 {
  static constexpr ForwardPolicy kPolicy{128, 2, 128, 2, false, true, true, 40, 232, 2, 2, true};
};

// See Pipeline::Kind; of a kind there are two barriers for each stage.
constexpr int kBarrierKinds = 5;

// Places in shared memory, in bytes from its 1024-byte aligned start; all swizzled within 8 rows.
// Queries are [parts][rows][query_row], keys and values [tokens / 8][parts][8][key_row] bytes. In
// fp8 values are [tokens / 16][head_size][16] bytes without a swizzle; there are the codes that
// queries are rounded to, [parts][rows][key_row], so that the place of those that are brought is
// one and soon free again; scales; and sums that the consumers put away. Of scales there are,
// beside those of queries, three tables: scales of keys, log2 of those of values, and 1 / these;
// each [4][block_keys / 8][2] floats, as the four lanes of a quad want their columns of scores,
// with 16 bytes between the lanes' so that they lie in other banks.
struct ForwardMemory {
  int query_bytes, block_bytes, scale_bytes;  // of a stage
  int scale_lane_bytes, scale_table_bytes;
  int query, codes, keys, values, scales, query_scales, sums, barriers, tiles, total;

  constexpr explicit ForwardMemory(const ForwardPolicy& policy)
      : query_bytes(policy.rows() * policy.head_size * 2),
        block_bytes(policy.block_keys * policy.head_size * policy.element_bytes),
        scale_bytes(policy.fp8() ? 12 * (policy.block_keys + 16) + 16 : 0),
        scale_lane_bytes(policy.block_keys + 16),
        scale_table_bytes(4 * scale_lane_bytes),
        query(0),
        codes(query + (policy.fp8() ? 1 : policy.query_stages) * query_bytes),
        keys(codes + (policy.fp8() ? query_bytes / 2 : 0)),
        values(keys + policy.stages * block_bytes),
        scales(values + policy.stages * block_bytes),
        query_scales(scales + policy.stages * scale_bytes),
        sums(query_scales + (policy.fp8() ? policy.rows() * 4 : 0)),
        barriers(sums + (policy.fp8() ? policy.rows() * policy.head_size * 4 : 0)),
        tiles(barriers + kBarrierKinds * 2 * policy.most_stages() * 8),
        total(tiles + 2 * 32) {}
};

// What is left of a multiprocessor's shared memory to a block after aligning the start.
constexpr int kMostSharedBytes = 232448 - 1024;

}  // namespace quire::cuda::hopper
