// SPDX-License-Identifier: MIT
// What the launchers of the norms and their kernels share: the numbers by which they plan and run, and what a launch
// hands over, laid out alike.
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

// How weight or bias lies in memory.
enum { KW_WEIGHT_NONE = 0, KW_WEIGHT_LIKE_X = 1, KW_WEIGHT_FLOAT32 = 2 /* of 16-bit x */ };

// Pitches are bytes from one row to the next.
struct KwNormParams {
  const char* x;
  const char* residual;  // null without
  const char* weight;
  const char* bias;
  char* y;
  char* sum;    // null without residual
  float* mean;  // mean, bias: LayerNorm's
  float* rstd;
  long long x_pitch, residual_pitch, y_pitch, sum_pitch;
  long long rows;
  int cols;
  int weight_kind;
  int bias_kind;
  float inverse_cols;
  float eps;
  int group;          // narrow, staged: lanes a row, a power of two up to 32
  int row_is_a_warp;  // row, long, unaligned: a row is a warp's; else a block's, or a cluster's
  int slots;          // row, long: vectors a thread, at most as many as the kernel has room for
  int cluster_log2;   // row, long, unaligned: blocks a row, as a power of two
  int part, held;     // unaligned: columns of a warp or block, and how many of them shared memory holds
  int keep;           // L2 is to keep what is read longest
  int rows_a_block;   // staged
};

// Where sums over the rows go: float32, or rounded to one of the types of base.h, whose numbers these are.
enum { KW_SUMS_FLOAT32 = 0, KW_SUMS_FLOAT16 = 1, KW_SUMS_BFLOAT16 = 2 };

// Pitches are bytes from one row to the next.
struct KwNormBackwardParams {
  const char* dy;
  const char* h;
  const char* dsum;  // null: none
  const char* weight;
  char* dx;
  const float* mean;  // null: to be computed
  const float* rstd;  // null: to be computed
  char* dweight;      // `partials` rows of sums of dy * u; null: not wanted
  char* dbias;        // the same of dy
  float* statistics;  // few_rows: where mean and rstd of each row, or rstd alone, are left; null: not wanted
  long long dy_pitch, h_pitch, dsum_pitch, dx_pitch;
  long long dy_step, h_step, dsum_step, dx_step;  // the same from one turn to the next
  long long rows, step;                           // all, and those that all blocks together do in one turn
  long long rest;                                 // rows of the last turn, if it is not a whole one
  int turns;                                      // the whole ones
  int cols;
  int weight_kind;
  int sums_kind;  // of dweight and dbias here: not float32 only where one block has all rows
  float inverse_cols;
  float eps;
  int group;       // lanes a row, a power of two; 32 where a row is whole warps'
  int team_warps;  // warps of a block that share a row
  int parts;       // blocks that share a row: a cluster, or else each reads the others' columns too
  int cluster;     // they are a cluster
  // unaligned, of dy, h and dsum: where the tensor begins, and how far after that 16 bytes of it may be read at once
  const char* first[3];
  unsigned long long reach[3];
};

struct KwNormColumnsParams {
  const char* dy;
  const char* h;
  const float* statistics;  // as KwNormBackwardParams has it
  char* dweight;            // null: not wanted
  char* dbias;              // null: not wanted
  long long dy_pitch, h_pitch;
  unsigned rows;
  int cols;
  int sums_kind;
  unsigned lanes;  // of a row that a block has, 16 bytes each: 2 or 4
};

struct KwNormReduceParams {
  const float* partial;  // `partials` rows of sums for dweight, then as many for dbias
  char* dweight;         // null: not wanted
  char* dbias;           // null: not wanted
  int partials;
  int cols;
  int sums_kind;
  int count;            // sums that one load brings: 4 where all rows of them begin on 16 bytes, or 1
  int width;            // such loads that a block does side by side, a power of two up to 32
  int before_clusters;  // the next kernel may be clusters that take all of the device
};
