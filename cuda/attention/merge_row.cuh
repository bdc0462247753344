#pragma once

#include "attention/softmax_step.cuh"

namespace quire::cuda {

// Merging the partial results of one row of a split tile, in order of their keys, by one warp.

// attention::merge for 32 splits at once, the factors in parallel: lane i folds split i into those
// before it. `before`: the largest maximum of the splits before these.
__device__ inline MergeFactors merge_factors(float maximum, float& before, int lane) {
  constexpr float kNone = -std::numeric_limits<float>::infinity();
  float upto = maximum;
  for (int distance = 1; distance < 32; distance *= 2) {
    const float other = __shfl_up_sync(0xffffffffu, upto, distance);
    if (lane >= distance) upto = fmaxf(upto, other);
  }
  upto = fmaxf(upto, before);
  float left_maximum = __shfl_up_sync(0xffffffffu, upto, 1);
  if (lane == 0) left_maximum = before;
  before = __shfl_sync(0xffffffffu, upto, 31);
  if (maximum == kNone) return {1, 0};
  if (left_maximum == kNone) return {0, 1};
  return {exp2f(left_maximum - upto), exp2f(maximum - upto)};
}

// Place of a row's result over a split of a prefix among the partial results.
__device__ inline std::size_t prefix_row(const AttentionArgs& args, const PrefixPart& part,
                                         int split, int head, int row) {
  return static_cast<std::size_t>(part.first) +
         (static_cast<std::size_t>(split) * args.kv_heads + head) * part.rows + row;
}

// Groups of 128 columns of a head.
constexpr int merge_groups(int head_size) {
  return (head_size + 127) / 128;
}

// Row `row` of a merge and query head; a lane has four neighbouring columns of each of kGroups.
template <int kGroups>
__device__ inline void merge_row(const AttentionArgs& args, const MergeItem& item, int head,
                                 int row, int lane) {
  constexpr int kLoadsAtOnce = 16 / kGroups;
  constexpr float kNone = -std::numeric_limits<float>::infinity();
  const std::size_t first =
      static_cast<std::size_t>(item.first_partial) + head * item.tile_rows + row;
  const int splits = item.prefix.splits + item.splits;
  const auto place = [&](int split) {
    if (split < item.prefix.splits) return prefix_row(args, item.prefix, split, head, row);
    return first + static_cast<std::size_t>(split - item.prefix.splits) * item.stride;
  };
  SoftmaxState state;
  float before = kNone;
  float4 sums[kGroups] = {};
  for (int split = 0; split < splits; split += 32) {
    float2 mine = make_float2(kNone, 0);
    if (split + lane < splits) {
      // Past the first-level cache: other thread blocks of this kernel may have written them.
      mine = __ldcg(args.partial_states + place(split + lane));
    }
    MergeFactors factors;
    const int count = min(32, splits - split);
    for (int part = 0; part < count; part += kLoadsAtOnce) {
      float4 values[kLoadsAtOnce][kGroups];
#pragma unroll
      for (int i = 0; i < kLoadsAtOnce; ++i) {
        const std::size_t from = place(split + part + i);
#pragma unroll
        for (int g = 0; g < kGroups; ++g) {
          const int column = lane * 4 + g * 128;
          values[i][g] = part + i < count && column < args.head_size
                             ? __ldcg(reinterpret_cast<const float4*>(
                                   args.partial + from * args.head_size + column))
                             : make_float4(0, 0, 0, 0);
        }
      }
      if (part == 0) factors = merge_factors(mine.x, before, lane);  // waits behind the loads
#pragma unroll
      for (int i = 0; i < kLoadsAtOnce; ++i) {
        // Lanes past `count` have no maximum, so their factors are {1, 0}.
        const MergeFactors two{__shfl_sync(0xffffffffu, factors.left, part + i),
                               __shfl_sync(0xffffffffu, factors.right, part + i)};
        const float sum = __shfl_sync(0xffffffffu, mine.y, part + i);
        state.sum = merge_sum(state.sum, sum, two);
#pragma unroll
        for (int g = 0; g < kGroups; ++g) {
          sums[g].x = merge_sum(sums[g].x, values[i][g].x, two);
          sums[g].y = merge_sum(sums[g].y, values[i][g].y, two);
          sums[g].z = merge_sum(sums[g].z, values[i][g].z, two);
          sums[g].w = merge_sum(sums[g].w, values[i][g].w, two);
        }
      }
    }
  }
  state.maximum = before;
  const int query_row = item.first + row;
  const int query_head = head * args.group + query_row % args.group;
  const int pass_row = item.pass_row + query_row / args.group;
  const float factor = finish_row(args, state, query_head);
  __nv_bfloat16* to =
      args.output + (static_cast<std::size_t>(pass_row) * args.heads + query_head) * args.head_size;
#pragma unroll
  for (int g = 0; g < kGroups; ++g) {
    const int column = lane * 4 + g * 128;
    if (column >= args.head_size) continue;
    *reinterpret_cast<uint2*>(to + column) =
        make_uint2(pack(sums[g].x * factor, sums[g].y * factor, __nv_bfloat16{}),
                   pack(sums[g].z * factor, sums[g].w * factor, __nv_bfloat16{}));
  }
}

}  // namespace quire::cuda
