// SPDX-License-Identifier: MIT
// The numbers by which the launchers of the 4-bit operators plan and their kernels run. Host and device read this file.
#pragma once

#include "ops/four_bit/matmul_tuning.h"

namespace kw {

// An enum, since a constant of a namespace is a symbol in every image that sees it.
enum : unsigned {
  // --- dequantize_4bit, quantize_4bit
  kDequantizeThreads = 256,
  kDequantizeSlots = 4,  // units of 16 bytes of y a thread has under way
  kQuantizeThreads = 128,
  kQuantizeRows = 4,     // units of 16 bytes of x a thread has under way
  kQuantizeBlocks = 8,   // of a multiprocessor at once
  kAbsmaxThreads = 256,  // of a block of scales, which are quantized again

  // --- matmul_4bit, any shape
  kAnyThreads = 256,
  kAnyRows = 4,  // rows of x that a warp multiplies at once

  // --- matmul_4bit in float32 (matmul_words.cuh), whose blocks are as those of any shape
  kWordsRows = 8,    // of the weight, of a warp
  kWordsMost = 4,    // rows of x that it multiplies at once
  kWordsStep = 256,  // of k

  // --- matmul_4bit by tiles (matmul_tile.cuh): a chunk is 32 of k, 16 bytes of codes
  kChunkLog2 = 5,
  kWarpChunks = 4,             // a warp takes of a step
  kPairsBytes = 256 * 32 * 4,  // the table of pairs, a copy for each lane
  kXPadding = 64,              // bytes after a row of x: lanes of two groups read different banks
  kSumsPadding = 4,            // floats, to the same end
  kSumsCols = 8,               // columns that are summed over the warps at once

  // --- matmul_4bit of few rows (matmul_gemv.cuh)
  kGemvWarpsLog2 = 3,
  kGemvThreads = 32 << kGemvWarpsLog2,  // a block: one for each entry of the table
  kEntryBytes = 256,
  kMapAt = 128,                            // in an entry
  kOffsetAt = kGemvThreads * kEntryBytes,  // of quantized scales
  kMostParts = 63,                         // of a weight, each with an offset
  kTableBytes = kOffsetAt + (kMostParts + 1) * 4,
  kSharedScales = 256,  // bytes of those that a warp's lanes make for each other, of a half of its units

  // --- matmul_4bit by warpgroups (matmul_narrow.cuh): a slice is 64 of k, a step four slices, a stage two or four
  kNarrowWarps = 16,
  kOwnWarps = kNarrowWarps - 4,                        // of a block with a neighbour, those with rows of their own
  kNarrowWarpRows = 16,                                // of the weight
  kNarrowRows = kNarrowWarps * kNarrowWarpRows,        // of a block
  kSidesRows = (kOwnWarps * 2 + 4) * kNarrowWarpRows,  // of two side by side
  kNarrowSlice = 64,
  kSliceBytes = kNarrowSlice * 2,  // of a row of x
  kStepSlices = 4,
  kStepBytes = 16 * 128,    // of a warp's codes
  kStepSlots = 3,           // for these: all but one are on their way; with a fourth it is slower
  kPairPitch = 256,         // bytes of the table for a byte of codes: its place is then part of an address
  kPairBytes = 128,         // of these, for a pair of each lane
  kScalesBox = 8 * 16,      // bytes of a step's scales of 8 rows: what such a line leaves
  kNarrowAlignment = 1024,  // of the table, and of what follows it
  kNarrowStages = 4,        // of x
  kNarrowXThreads = 128,
  kNarrowXUnits = 8,  // of a slice of a row, a thread each
  kNarrowSumThreads = 256,

  // --- matmul_4bit of many rows (matmul_wide.cuh): a step is 64 of k
  kWideThreads = 384,             // a warpgroup that copies, two that multiply
  kWideRows = 128,                // of the weight, of a block
  kWideCluster = 2,               // blocks with the same rows of x: each copies half of them to both
  kWideDepth = 64,                // of k
  kWideFeeders = 3,               // warps that bring codes and scales
  kWideSlots = 6,                 // for steps of these: in the gaps of the table of pairs
  kWideSlotGaps = 32 + 8,         // of 128 bytes: 128 rows of codes, and of two scales
  kWideTable = 256 * kPairPitch,  // bytes
  kWideWarps = 8,                 // that multiply
  kWideEndPitch = 48,             // bytes of 16 results of a warp that lie together, and of what keeps banks apart
  kWideEnd = 16 * kWideEndPitch,  // of a warp
  kWideMostStages = 8,            // of x and codes
  kWideCodes = kWideRows * kWideDepth / 2,  // bytes of a stage
  kWideShared = 227 * 1024,                 // bytes that a block can have
  kWideBeginThreads = 256,
};

constexpr unsigned wide_stage_bytes(unsigned cols) { return cols * kWideDepth * 2 + kWideCodes; }

// Stages of a kernel for so many rows of x: what there is room for.
constexpr unsigned wide_stages(unsigned cols) {
  const unsigned room = kWideShared - kNarrowAlignment - kWideTable - kWideWarps * kWideEnd - 512;
  const unsigned stages = room / wide_stage_bytes(cols);
  return stages < kWideMostStages ? stages : unsigned{kWideMostStages};
}

// What such a block takes.
constexpr unsigned wide_block_bytes(unsigned cols) {
  return kNarrowAlignment + kWideTable + wide_stages(cols) * wide_stage_bytes(cols) + kWideWarps * kWideEnd + 512;
}

// Slices of a stage of a kernel for so many rows of x: with four each warp waits half as often.
constexpr unsigned narrow_stage_slices(unsigned cols) { return cols <= 16 ? 4 : 2; }

}  // namespace kw
