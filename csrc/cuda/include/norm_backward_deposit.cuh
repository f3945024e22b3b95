// SPDX-License-Identifier: MIT
// Where a block leaves what its threads have summed over their rows.
#pragma once

#include "norm_backward_finish.cuh"
#include "norm_backward_place.cuh"

namespace kw {

template <int kSlots, int kCount>
__device__ __forceinline__ float4 quad_of(const float (&sum)[kSlots][kCount], u32 i) {
  const float* of = &sum[i / kCount][i % kCount];
  return {of[0], of[1], of[2], of[3]};
}

template <class T, bool kAligned>
__device__ __forceinline__ void store_quad(const BackwardPlace<T, kAligned>& at, char* to, u32 index,
                                           const float4& sum) {
  constexpr int kCount = BackwardPlace<T, kAligned>::kCount;
  if (at.lane() >= at.p.group) return;
  const u64 block_row = static_cast<u64>(blockIdx.x / at.p.parts) * at.p.cols;
  const u32 begin = at.column(index / kCount) + index % kCount;
  if (kAligned && at.p.sums_kind == KW_SUMS_FLOAT32 && at.offset_of(to) == 0) {
    if (begin < at.p.cols) *reinterpret_cast<float4*>(to + (block_row + begin) * 4) = sum;
    return;
  }
  const float value[4] = {sum.x, sum.y, sum.z, sum.w};
#pragma unroll
  for (u32 i = 0; i < 4; ++i) {
    if (begin + i < at.p.cols) store_sum(to, block_row + begin + i, value[i], at.p.sums_kind);
  }
}

// Adds the sums of lanes that had other rows, then of the block's other teams: those leave theirs in shared memory, and
// each team adds and stores some of the columns.
template <class T, bool kAligned, int kSlots, int kCount>
__device__ __forceinline__ void deposit(const BackwardPlace<T, kAligned>& at, char* to, float (&sum)[kSlots][kCount],
                                        char* memory) {
  for (u32 mask = kWarp / 2; mask >= at.p.group; mask /= 2) {
#pragma unroll
    for (u32 i = 0; i < kThreadColumns; ++i) {
      sum[i / kCount][i % kCount] += shuffle_xor(sum[i / kCount][i % kCount], mask);
    }
  }
  if (at.teams() == 1) {
    if (to == nullptr) return;
#pragma unroll
    for (u32 i = 0; i < kThreadColumns; i += 4) store_quad(at, to, i, quad_of(sum, i));
    return;
  }
  const u32 members = at.p.team_warps * kWarp, member = at.warp() * kWarp + at.lane();
  float4* quads = reinterpret_cast<float4*>(memory);
  __syncthreads();
#pragma unroll
  for (u32 i = 0; i < kThreadColumns; i += 4) {
    quads[(at.team * (kThreadColumns / 4) + i / 4) * members + member] = quad_of(sum, i);
  }
  __syncthreads();
  if (to == nullptr) return;
  for (u32 i = at.team * 4; i < kThreadColumns; i += at.teams() * 4) {
    float4 total = {0.0f, 0.0f, 0.0f, 0.0f};
    for (u32 other = 0; other < at.teams(); ++other) {
      const float4 quad = quads[(other * (kThreadColumns / 4) + i / 4) * members + member];
      total.x += quad.x, total.y += quad.y, total.z += quad.z, total.w += quad.w;
    }
    store_quad(at, to, i, total);
  }
}

}  // namespace kw
