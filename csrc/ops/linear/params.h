/* SPDX-License-Identifier: MIT */
/* What the launcher of linear hands to its kernels, laid out alike on host and device. */
#ifndef KW_LINEAR_PARAMS_H
#define KW_LINEAR_PARAMS_H

#include "device/tensor_map.h"

/* Of a tile: rows of x, rows of the weight; and k of a stage, which is 128 bytes of each. */
enum { KW_LINEAR_ROWS = 128, KW_LINEAR_COLUMNS = 128, KW_LINEAR_DEPTH = 64, KW_LINEAR_THREADS = 384 };

/* What fits into a block's 227 KB: stages, 16 rows of 32 sums for each of eight warps, barriers. Up to 1024 bytes go
 * where stages begin on a multiple of as many. */
enum {
  KW_LINEAR_STAGES = 6,
  KW_LINEAR_STAGE_BYTES = (KW_LINEAR_ROWS + KW_LINEAR_COLUMNS) * 128,
  KW_LINEAR_EPILOGUE_BYTES = 8 * 16 * 160,
  KW_LINEAR_SHARED = 1024 + KW_LINEAR_STAGES * KW_LINEAR_STAGE_BYTES + KW_LINEAR_EPILOGUE_BYTES + 256
};

struct KwLinearParams {
  struct KwTensorMap x;      /* boxes of KW_LINEAR_ROWS rows of 64 elements, 128 bytes swizzled */
  struct KwTensorMap weight; /* the same of a tile's columns, or of a block's share of them in a cluster */
  char* y;
  const char* bias;
  long long y_pitch;
  unsigned m, n;  /* of y: the weight of a gated layer has twice as many rows, as its bias has elements */
  unsigned steps; /* of k */
  unsigned rows, columns, group; /* tiles of all blocks, and how many rows of them a group has */
  int activation;
  int vectors;
};

/* By warps: a tile's rows of x and of the weight, k of a stage, stages. A row has 16 bytes more than it needs. */
enum {
  KW_LINEAR_WARPS_TILE = 128,
  KW_LINEAR_WARPS_DEPTH = 32,
  KW_LINEAR_WARPS_PITCH = KW_LINEAR_WARPS_DEPTH * 2 + 16,
  KW_LINEAR_WARPS_STAGES = 3,
  KW_LINEAR_WARPS_THREADS = 256,
  KW_LINEAR_WARPS_SHARED = 2 * KW_LINEAR_WARPS_STAGES * KW_LINEAR_WARPS_TILE * KW_LINEAR_WARPS_PITCH
};

/* Those of GPUs without warpgroups, and of any: csrc/ops/linear/device/{warps,any}.cuh */
struct KwLinearAnyParams {
  char* y;
  const char* x;
  const char* weight;
  const char* bias;
  long long y_pitch, x_pitch, weight_pitch; /* bytes */
  long long m, n, k;                        /* n of y, as above */
  unsigned rows, columns, group;            /* of tiles; the first and the last by warps alone, as is `vectors` */
  int activation;
  int vectors;
};

#endif
