// SPDX-License-Identifier: MIT
// Which rows a block of attention has: its tile of queries, head, and sequence.
#pragma once

#include "device/types.cuh"
#include "ops/attention/params.h"

namespace kw {

// Of one sequence: its first row in the tensor and how many there are.
struct Sequence {
  int first, count;
};

__device__ __forceinline__ Sequence sequence_of(const int* starts, int batch, int most) {
  if (starts == nullptr) return {0, most};
  const int first = starts[batch], count = starts[batch + 1] - first;
  return {first, count < 0 ? 0 : count < most ? count : most};
}

struct TileCoordinates {
  int tile, head, batch;
};

// Tiles that see most keys, where queries see what is before them, come first; blocks that are computed at one time
// have few heads of k and v, so many of a section, which L2 then has.
__device__ __forceinline__ TileCoordinates tile_coordinates(u32 index, const KwAttentionSizes& sizes, u32 tiles,
                                                            u32 section) {
  const u32 heads = sizes.heads, whole = section * tiles, first = index / whole * section, inside = index % whole;
  const u32 left = sizes.batch * heads - first, width = left < section ? left : section;
  const u32 head = first + inside % width;
  return {static_cast<int>(tiles - 1 - inside / width), static_cast<int>(head % heads), static_cast<int>(head / heads)};
}

__device__ __forceinline__ char* head_of(const KwHeads& heads, int batch, int head, int row) {
  return heads.data + batch * heads.batch + head * heads.head + row * heads.row;
}

}  // namespace kw
