// SPDX-License-Identifier: MIT
// Which tile of a result comes next: blocks stay, and take tiles in turn.
#pragma once

#include "device/types.cuh"

namespace kw {

struct Tile {
  u32 row, column;
};

// Tiles in groups of rows, a group's columns one after the other: the tiles that are computed at one time have few rows
// and few columns between them, which L2 then has.
struct TileScheduler {
  u32 rows, columns, group;  // counted in tiles

  __device__ __forceinline__ u32 count() const { return rows * columns; }

  __device__ __forceinline__ Tile at(u32 index) const {
    const u32 whole = group * columns, first = index / whole * group, inside = index % whole;
    const u32 left = rows - first, height = left < group ? left : group;
    return {first + inside % height, inside / height};
  }
};

}  // namespace kw
