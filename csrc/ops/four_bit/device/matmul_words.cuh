// SPDX-License-Identifier: MIT
// The product with a 4-bit weight in float32: a warp has eight rows of the weight and one or four of x; a lane has of
// 256 of k eight, which are a word of codes. So what it loads of x serves all rows of the weight. A byte of two codes
// is looked up as two floats, of which each lane of a half warp has its copy: no two meet in a bank.
//
// Where rows of the weight are few, warps of a block share k, and add up through shared memory, in one order.
#pragma once

#include "device/element.cuh"
#include "device/ptx/memory.cuh"
#include "device/ptx/shared.cuh"
#include "device/ptx/sync.cuh"
#include "device/reduce.cuh"
#include "ops/four_bit/device/scales.cuh"
#include "ops/four_bit/geometry.h"

namespace kw {

template <u32 kM>  // rows of x
struct Words4bit {
  static constexpr u32 kCount = 8, kStep = kWarp * kCount, kRows = kWordsRows, kWarps = kAnyThreads / kWarp;
  static constexpr u32 kCopies = 16, kPitch = kCopies * 8;
  using Table = u32[256 * kPitch / 4];
  using Partial = float[kWarps][kRows][kM];

  struct Codes {
    u32 word[kRows];
    Scale4bit scale[kRows];
  };

  const KwMatmul4bitParams& p;
  const u32 lane, warp, parts;  // warps that share k
  i64 row, m;                   // the first of the weight, of x
  u32 pairs;                    // where the lane's copies of the table begin
  float sum[kRows][kM];

  __device__ __forceinline__ explicit Words4bit(const KwMatmul4bitParams& p)
      : p(p), lane(threadIdx.x % kWarp), warp(threadIdx.x / kWarp), parts(1u << p.k_warps_log2) {
    row = (blockIdx.x % p.tiles * i64{kWarps >> p.k_warps_log2} + warp / parts) * kRows;
    m = blockIdx.x / p.tiles * i64{kM};
#pragma unroll
    for (u32 i = 0; i < kRows * kM; ++i) sum[i / kM][i % kM] = 0.0f;
  }

  __device__ __forceinline__ void fill(Table& table) {
    const u32 to = shared_address(table);
    for (u32 i = threadIdx.x; i < 256 * kCopies / 2; i += kAnyThreads) {
      const u32 byte = i / (kCopies / 2);
      const u32 first = bits_of_float(p.values[byte >> 4]), second = bits_of_float(p.values[byte & 15]);
      const u32 word[4] = {first, second, first, second};
      store_shared<16>(to + byte * kPitch + i % (kCopies / 2) * 16, word);
    }
    pairs = to + lane % kCopies * 8;
  }

  __device__ __forceinline__ i64 element(u32 i, i64 at) const { return (row + i) * p.k + at; }

  __device__ __forceinline__ void fetch(i64 at, Codes& of) const {
#pragma unroll
    for (u32 i = 0; i < kRows; ++i) {
      u32 one[1] = {0};
      if (at < p.k && row + i < p.n) {
        load<4>(p.packed + element(i, at) / 2, one);
        of.scale[i].fetch(p.scales, element(i, at) >> p.scales.block_log2);
      }
      of.word[i] = one[0];
    }
  }

  __device__ __forceinline__ void fetch_x(i64 at, float (&x)[kM][kCount]) const {
#pragma unroll
    for (u32 j = 0; j < kM; ++j) {
      const char* const from = p.x + (m + j) * p.x_pitch + at * 4;
#pragma unroll
      for (u32 i = 0; i < kCount; ++i) x[j][i] = 0.0f;
      if (at >= p.k || m + j >= p.m) continue;
#pragma unroll
      for (u32 i = 0; i < kCount; i += 4) {
        u32 word[4];
        if (p.vectors) {
          load<16>(from + i * 4, word);
        } else {
#pragma unroll
          for (u32 l = 0; l < 4; ++l) load<4>(from + (i + l) * 4, word + l);
        }
#pragma unroll
        for (u32 l = 0; l < 4; ++l) x[j][i + l] = float_of_bits(word[l]);
      }
    }
  }

  // The place of a byte of a word in the table.
  __device__ __forceinline__ u32 place(u32 word, u32 byte) const {
    const u32 shifted = byte == 0 ? word << 7 : word >> (byte * 8 - 7);
    return pairs + (shifted & (255u * kPitch));
  }

  __device__ __forceinline__ void add(i64 at, const Codes& of, const float (&x)[kM][kCount]) {
#pragma unroll
    for (u32 i = 0; i < kRows; ++i) {
      float part[kM] = {}, by = 0.0f;
      if (at < p.k && row + i < p.n) by = of.scale[i].get(p.scales, element(i, at) >> p.scales.block_log2);
#pragma unroll
      for (u32 byte = 0; byte < 4; ++byte) {
        u32 pair[2];
        load_shared<8>(place(of.word[i], byte), pair);
#pragma unroll
        for (u32 j = 0; j < kM; ++j) {
          part[j] = fmaf(float_of_bits(pair[0]), x[j][byte * 2], part[j]);
          part[j] = fmaf(float_of_bits(pair[1]), x[j][byte * 2 + 1], part[j]);
        }
      }
#pragma unroll
      for (u32 j = 0; j < kM; ++j) sum[i][j] = fmaf(part[j], by, sum[i][j]);
    }
  }

  __device__ __forceinline__ void add_all() {
    const i64 step = i64{kStep} << p.k_warps_log2;
    i64 at = warp % parts * i64{kStep} + lane * kCount;
    Codes codes;
    fetch(at, codes);
#pragma unroll 1
    for (; at - lane * kCount < p.k; at += step) {
      const Codes now = codes;
      float x[kM][kCount];
      fetch_x(at, x);
      fetch(at + step, codes);
      add(at, now, x);
    }
  }

  __device__ __forceinline__ void put(i64 of_m, i64 of_row, float total) const {
    if (of_m >= p.m || of_row >= p.n) return;
    if (p.bias != nullptr) total += load_float(p.bias + of_row * 4);
    const u32 word[1] = {bits_of_float(total)};
    store<4>(p.y + of_m * p.y_pitch + of_row * 4, word);
  }

  __device__ __forceinline__ void finish(Partial& partial) const {
#pragma unroll
    for (u32 i = 0; i < kRows * kM; ++i) {
      const float total = warp_sum(sum[i / kM][i % kM]);
      if (lane == 0) partial[warp][i / kM][i % kM] = total;
    }
    __syncthreads();
    // A thread a row of the weight and one of x, of each group of warps that share k.
    if (warp % parts != 0 || lane >= kRows * kM) return;
    const u32 i = lane / kM, j = lane % kM;
    float total = 0.0f;
#pragma unroll 1
    for (u32 part = 0; part < parts; ++part) total += partial[warp + part][i][j];
    put(m + j, row + i, total);
  }

  __device__ __forceinline__ void run() {
    __shared__ __align__(16) Table table;
    __shared__ Partial partial;
    allow_next_kernel();
    fill(table);
    __syncthreads();
    wait_for_previous_kernel();
    add_all();
    finish(partial);
  }
};

}  // namespace kw
