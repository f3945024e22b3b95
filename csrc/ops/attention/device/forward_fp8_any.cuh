// SPDX-License-Identifier: MIT
// Attention of 8-bit floats on any GPU, of rows that lie anywhere: a warp has one query at a time, its lanes a key
// each, then elements of the values. Right, not fast: for small calls, and where warpgroups cannot multiply.
#pragma once

#include "device/element.cuh"
#include "device/ptx/memory.cuh"
#include "ops/attention/device/fp8_scales.cuh"
#include "ops/attention/device/score.cuh"
#include "ops/attention/device/tile_coordinates.cuh"
#include "ops/fp8/device/e4m3.cuh"

namespace kw {

struct AttendFp8Any {
  static constexpr u32 kWarps = KW_ATTENTION_FP8_WARPS, kMost = KW_ATTENTION_FP8_MOST, kMine = kMost / 32;

  const KwAttentionFp8Params& p;

  __device__ __forceinline__ static float read(const char* from) {
    u32 code[1];
    load<1>(from, code);
    return float_of_e4m3(code[0]);
  }

  __device__ __forceinline__ float product(const float* q, const char* k) const {
    float sum = 0.0f;
#pragma unroll 4
    for (int i = 0; i < p.sizes.d; ++i) sum = fmaf(q[i], read(k + i), sum);
    return sum;
  }

  // Adds 32 keys' values, of which `count` are there, each times its lane's share.
  __device__ __forceinline__ void gather(float (&o)[kMine], float share, const char* v, int count) const {
    const int lane = static_cast<int>(threadIdx.x % 32);
#pragma unroll 1
    for (int key = 0; key < count; ++key) {
      const float by = shuffle_from(share, static_cast<u32>(key));
      const char* const row = v + key * p.v.row;
#pragma unroll
      for (int i = 0; i < static_cast<int>(kMine); ++i) {
        if (lane + i * 32 < p.sizes.d_v) o[i] = fmaf(by, read(row + lane + i * 32), o[i]);
      }
    }
  }

  __device__ __forceinline__ void write(const float (&o)[kMine], float by, char* to) const {
    const int lane = static_cast<int>(threadIdx.x % 32);
#pragma unroll
    for (int i = 0; i < static_cast<int>(kMine); ++i) {
      const int at = lane + i * 32;
      if (at >= p.sizes.d_v) continue;
      const float value = o[i] * by;
      const u32 wide[1] = {bits_of_float(value)};
      const u32 narrow[1] = {p.dtype == 1 ? half_pair(value, 0.0f) : bfloat_pair(value, 0.0f)};
      if (p.dtype == 0) {
        store<4>(to + at * 4, wide);
      } else {
        store<2>(to + at * 2, narrow);
      }
    }
  }

  __device__ __forceinline__ void query(int batch, int head, int row, float* q) const {
    const int lane = static_cast<int>(threadIdx.x % 32), kv_head = head / (p.sizes.heads / p.sizes.kv_heads);
    const Scores<BFloat16> scores(p.score, batch, head, p.sizes.queries, p.sizes.keys);
    const Fp8Factors by(p.scales, p.sizes, p.score.scale, batch, head);
    constexpr float kLog2E = 1.4426950408889634f;
    const char* const mine = head_of(p.q, batch, head, row);
    for (int i = lane; i < p.sizes.d; i += 32) q[i] = read(mine + i);
    __syncwarp();
    float o[kMine] = {}, most = minus_infinity(), sum = 0.0f;
    const int end = scores.end_key(row);
#pragma unroll 1
    for (int at = scores.first_key(row); at < end; at += 32) {
      float s = minus_infinity();
      if (at + lane < end) s = product(q, head_of(p.k, batch, kv_head, at + lane)) * by.of_scores * kLog2E;
      float found = fmaxf(most, s);
#pragma unroll
      for (u32 i = 1; i < 32; i *= 2) found = fmaxf(found, shuffle_xor(found, i));
      const float base = found == minus_infinity() ? 0.0f : found, shrink = exp2_approx(most - base);
      const float share = exp2_approx(s - base);
      most = found;
      sum = fmaf(sum, shrink, share);
#pragma unroll
      for (u32 i = 0; i < kMine; ++i) o[i] *= shrink;
      gather(o, share, head_of(p.v, batch, kv_head, at), end - at < 32 ? end - at : 32);
    }
    __syncwarp();
#pragma unroll
    for (u32 i = 4; i < 32; i *= 2) sum += shuffle_xor(sum, i);
    float lse;
    const float share = row_end({most, sum}, 1.0f, &lse);
    if (p.lse != nullptr && lane == 0) p.lse[batch * p.sizes.lse_batch + head * p.sizes.lse_head + row] = lse;
    write(o, share * by.of_values, head_of(p.out, batch, head, row));
  }

  __device__ __forceinline__ void run() const {
    __shared__ float rooms[kWarps][kMost];
    const u32 warp = threadIdx.x / 32;
    const u64 rows = static_cast<u64>(p.sizes.batch) * p.sizes.heads * p.sizes.queries;
#pragma unroll 1
    for (u64 i = u64{blockIdx.x} * kWarps + warp; i < rows; i += u64{gridDim.x} * kWarps) {
      const u64 heads = i / p.sizes.queries;
      query(static_cast<int>(heads / p.sizes.heads), static_cast<int>(heads % p.sizes.heads),
            static_cast<int>(i % p.sizes.queries), rooms[warp]);
    }
  }
};

}  // namespace kw
