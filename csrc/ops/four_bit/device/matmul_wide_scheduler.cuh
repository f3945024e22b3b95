// SPDX-License-Identifier: MIT
// Which parts of the product a pair of blocks of matmul_wide.cuh has, one after the other. First whole tiles, in turn
// with the other pairs, so that all are at about the same k of neighbouring tiles, which L2 then has. Then its share of
// the steps of the tiles that are left, which do not fill the GPU: there pairs meet within tiles.
//
// Shares are dealt from the last pair to the first. So who begins a tile, and adds up what the others have of it, waits
// for blocks of smaller numbers alone, which a GPU places first, and for what those do first of their share.
#pragma once

#include "device/scheduler.cuh"
#include "device/types.cuh"
#include "ops/four_bit/geometry.h"
#include "ops/four_bit/params.h"

namespace kw {

// Steps of a tile.
struct WidePiece4bit {
  Tile tile;  // of x's rows, and of the weight's
  u32 first, count;
};

struct WideScheduler4bit {
  const KwMatmul4bitWideParams& p;
  const u32 pairs, pair;
  u32 next_whole;
  u32 at, end;  // of the shared steps

  __device__ __forceinline__ explicit WideScheduler4bit(const KwMatmul4bitWideParams& p)
      : p(p), pairs(gridDim.x / kWideCluster), pair(blockIdx.x / kWideCluster), next_whole(pair) {
    at = share(pairs - 1 - pair);
    end = share(pairs - pair);
  }

  // Where the share of a place in their order begins.
  __device__ __forceinline__ u32 share(u32 place) const { return static_cast<u32>(p.split * u64{place} / pairs); }

  __device__ __forceinline__ Tile tile(u32 index) const {
    const TileScheduler tiles{p.columns, p.rows, p.group};
    return tiles.at(index);
  }

  __device__ __forceinline__ bool next(WidePiece4bit& piece) {
    if (next_whole < p.whole) {
      piece = {tile(next_whole), 0, p.steps};
      next_whole += pairs;
      return true;
    }
    if (at >= end) return false;
    const u32 index = at / p.steps, first = at % p.steps, left = end - at, rest = p.steps - first;
    const u32 count = left < rest ? left : rest;
    piece = {tile(p.whole + index), first, count};
    at += count;
    return true;
  }
};

}  // namespace kw
