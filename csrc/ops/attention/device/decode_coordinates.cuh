// SPDX-License-Identifier: MIT
// Which rows and keys a block of attention of few queries has, and where they lie.
#pragma once

#include "device/reduce.cuh"
#include "ops/attention/decode_params.h"
#include "ops/attention/device/tile_coordinates.cuh"

namespace kw {

struct DecodeCoordinates {
  int split, tile, kv_head, batch;
  int before, keys;  // rows of the cache, and with those that are appended
  int first, last;   // of the keys that any block looks at
  int begin, end;    // of those that this one does

  __device__ __forceinline__ explicit DecodeCoordinates(const KwDecodeParams& p) {
    const int splits = p.splits, tiles = p.row_tiles, index = static_cast<int>(blockIdx.x);
    split = index % splits;
    tile = index / splits % tiles;
    kv_head = index / splits / tiles % p.kv_heads;
    batch = index / splits / tiles / p.kv_heads;
    before = p.lengths == nullptr ? p.keys : p.lengths[batch];
    const int most = p.keys - p.new_rows;
    before = before < 0 ? 0 : p.lengths != nullptr && before > most ? most : before;
    keys = before + p.new_rows;
    share(p);
  }

  // Of the keys that any query sees, in steps of all warps, this split's share.
  __device__ __forceinline__ void share(const KwDecodeParams& p) {
    constexpr int kStep = 4 * KW_DECODE_KEYS;
    first = p.score.window_left < 0 ? 0 : keys - p.queries - p.score.window_left;
    last = p.score.window_right < 0 ? keys : keys + p.score.window_right;
    first = first < 0 ? 0 : first / kStep * kStep;
    last = last < 0 ? 0 : last < keys ? last : keys;
    const int steps = last > first ? (last - first + kStep - 1) / kStep : 0, each = (steps + p.splits - 1) / p.splits;
    begin = split * each < steps ? first + split * each * kStep : last;
    end = (split + 1) * each < steps ? first + (split + 1) * each * kStep : last;
  }

  // Where the row of a key lies, in bytes from the data of a cache.
  __device__ __forceinline__ i64 offset(const KwDecodeParams& p, const KwHeads& cache, int key) const {
    const i64 head = kv_head * cache.head;
    if (p.pages == nullptr) {
      const int from = p.batch_index == nullptr ? batch : p.batch_index[batch];
      return from * cache.batch + head + key * cache.row;
    }
    const int page = p.pages[batch * p.pages_stride + key / p.page_rows];
    return page * cache.batch + head + key % p.page_rows * cache.row;
  }
};

// Of a row of a block: which head and query it is.
struct DecodeRow {
  int head, query;
  bool there;

  __device__ __forceinline__ DecodeRow(const KwDecodeParams& p, const DecodeCoordinates& at, int row) {
    const int group = p.heads / p.kv_heads, index = at.tile * KW_DECODE_ROWS + row;
    there = index < group * p.queries;
    head = at.kv_head * group + (there ? index / p.queries : 0);
    query = there ? index % p.queries : 0;
  }
};

}  // namespace kw
