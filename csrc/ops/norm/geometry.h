// SPDX-License-Identifier: MIT
// The numbers by which the launchers of the norms plan and their kernels run. Host and device read this file.
#pragma once

namespace kw {

// An enum, since a constant of a namespace is a symbol in every image that sees it.
enum : int {
  // --- forward, rows on 16 bytes: units of 16 bytes a thread holds, packed. 16 registers, of 40 in all; with a
  // residual 32, of 64
  kRowSlots = 4,
  kLongSlots = 8,
  kRmsRowThreads = 768,
  kLayerRowThreads = 640,
  kRowBlocks = 2,  // of a multiprocessor at once
  kLongThreads = 1024,
  kNarrowThreads = 64,
  kStreamThreads = 1024,

  // --- forward, other rows
  kUnalignedThreads = 512,
  kStagedThreads = 256,
  kStagedTurns = 4,   // vectors of a thread
  kStagedCols = 512,  // at most
  kWarpRowThreads = 128,
  kWarpRows = 4,        // of a warp
  kWarpRowColumns = 4,  // of a lane

  // --- derivatives
  kThreadColumns = 16,
  kWideColumns = 32,
  kBackwardThreads = 512,  // of float32, of rows off 16 bytes, and of GPUs without clusters
  kRmsBackwardThreads = 768,
  kLayerBackwardThreads = 640,
  kTeamWarps = 16,    // that share a row, at most
  kClusterParts = 8,  // blocks of a cluster that share a row, at most
  kWideTeams = 5,     // of a wide block, at most

  // --- derivatives of few rows
  kFewSlots = 2,
  kFewThreads = 1024,
  kFewColumnsThreads = 512,
  kFewColumnsAhead = 4,  // rows on their way at once

  // --- sums over the rows
  kPartialsAhead = 8,  // loads on their way at once
  kPartialsQuad = 4,   // sums that a thread loads at once
  kPartialsFewestWarps = 8,
  kPartialsThreads = 1024,
};

}  // namespace kw
