// SPDX-License-Identifier: MIT
// The numbers by which the launchers of this family plan and their kernels run. Host and device read this file.
#pragma once

namespace kw {

// An enum, since a constant of a namespace is a symbol in every image that sees it.
enum : int {
  kBlockwiseThreads = 256,
  kQuantizeBlockwiseBlocks = 3,  // of a multiprocessor at once
  kDequantizeBlockwiseBlocks = 6,
  kBlockwiseSlots = 4,  // units of 16 bytes a thread has under way
  kOptimizerThreads = 256,
  // Blocks of threads that a multiprocessor has room for, by how many states a step has: kernels keep to the registers
  // for them, and launches have no more, or the last would only begin when the others have ended.
  kOptimizerBlocksOfOne = 4,
  kOptimizerBlocksOfTwo = 4,
  kOptimizerBlocksOfThree = 3,
  kAdvanceThreads = 32,  // of which one has work
  kOptimizerEach = 8,    // elements of a thread
  kOptimizerTile = kOptimizerThreads * kOptimizerEach,
};

}  // namespace kw
