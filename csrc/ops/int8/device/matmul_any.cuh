// SPDX-License-Identifier: MIT
// The product on any GPU and wherever rows lie, its sums scaled as those of the other kernels are. A Kind says what a
// word of a stage holds: four of int8 here, a number of e4m3 in csrc/ops/fp8.
#pragma once

#include "device/any_tile.cuh"
#include "device/ptx/dot.cuh"
#include "device/ptx/sync.cuh"
#include "ops/int8/device/matmul_result.cuh"

namespace kw {

struct Int8Words {
  using Element = u32;
  using Sum = int;
  static constexpr u32 kDepth = 8, kBytes = 4;  // words of a stage, and bytes of k that each holds

  __device__ __forceinline__ static u32 read(const char* from, i64 count) {
    u32 word = 0;
#pragma unroll 1
    for (u32 j = 0; j < kBytes && j < count; ++j) {
      u32 one[1];
      load<1>(from + j, one);
      word |= one[0] << (j * 8);
    }
    return word;
  }

  __device__ __forceinline__ static int add(u32 left, u32 right, int sum) { return dot4(left, right, sum); }
};

template <class Kind>
__device__ __forceinline__ void matmul_any(const KwMatmulAnyParams& p) {
  using Tile = AnyTile<typename Kind::Element, Kind::kDepth>;
  using Sum = typename Kind::Sum;
  __shared__ typename Tile::Stage left;
  __shared__ typename Tile::Stage right;
  const Tile tile(p.columns);
  Sum sum[Tile::kSums] = {};
  allow_next_kernel();
  wait_for_previous_kernel();
#pragma unroll 1
  for (i64 k = 0; k < p.k; k += Kind::kDepth * Kind::kBytes) {
    auto read = [&](const char* from, i64 pitch) {
      return [=](i64 row, u32 i) {
        const i64 at = k + i * Kind::kBytes;
        return Kind::read(from + row * pitch + at, p.k - at);
      };
    };
    Tile::fetch(left, tile.first_row, p.to.m, read(p.x, p.x_pitch));
    Tile::fetch(right, tile.first_column, p.to.n, read(p.weight, p.weight_pitch));
    __syncthreads();
    Tile::add_all(sum, left, right, Kind::add);
    __syncthreads();
  }
  tile.each([&](i64 row, i64 column, u32 j) {
    const MatmulColumns<1, Sum> columns(p.to, column, p.activation);
    const Sum value[1] = {Tile::chosen(sum, j)};
    columns.put(row, column, columns.row_scale(row), value);
  });
}

}  // namespace kw
