/* SPDX-License-Identifier: MIT */
/* What the launchers of matmul_int8 and matmul_fp8 hand to their kernels, in one layout on host and device. */
#ifndef KW_INT8_MATMUL_PARAMS_H
#define KW_INT8_MATMUL_PARAMS_H

#include "device/tensor_map.h"

/* As base.h numbers the element types of y and bias; a test compares. */
enum { KW_MATMUL_FLOAT32 = 0, KW_MATMUL_FLOAT16 = 1, KW_MATMUL_BFLOAT16 = 2, KW_MATMUL_INT32 = 6 };

/* By warpgroups: rows of x of a tile, which has 64, 128 or 256 of the weight; k of a stage, 128 bytes of each. */
enum { KW_MATMUL_ROWS = 128, KW_MATMUL_COLUMNS = 256, KW_MATMUL_DEPTH = 128, KW_MATMUL_THREADS = 384 };

/* What fits into a block's 227 KB: stages, 16 rows of 32 sums for each of eight warps, barriers. Up to 1024 bytes go
 * where stages begin on a multiple of as many. Narrower tiles have as many more stages in the same memory. */
enum {
  KW_MATMUL_STAGES_BYTES = 4 * (KW_MATMUL_ROWS + KW_MATMUL_COLUMNS) * 128,
  KW_MATMUL_ROOM_BYTES = 16 * 160,
  KW_MATMUL_SHARED = 1024 + KW_MATMUL_STAGES_BYTES + 8 * KW_MATMUL_ROOM_BYTES + 256
};

/* By warps: a tile's rows of x and of the weight, k of a stage, stages. A row has 16 bytes more than it needs. */
enum {
  KW_MATMUL_TILE = 128,
  KW_MATMUL_TILE_DEPTH = 64,
  KW_MATMUL_TILE_STAGES = 3,
  KW_MATMUL_TILE_PITCH = KW_MATMUL_TILE_DEPTH + 16,
  KW_MATMUL_TILE_THREADS = 256,
  KW_MATMUL_TILE_SHARED = 2 * KW_MATMUL_TILE_STAGES * KW_MATMUL_TILE * KW_MATMUL_TILE_PITCH
};

/* Few rows of x: rows of the weight that a block has at a time, its warps, which have k between them, and how many
 * bytes of a row a warp takes at once. */
enum { KW_MATMUL_FEW_COLUMNS = 16, KW_MATMUL_FEW_WARPS = 8, KW_MATMUL_FEW_CHUNK = 128 };

/* The result and what sums are multiplied by. */
struct KwMatmulResult {
  char* y;
  const char* x_scale;      /* or null */
  const char* weight_scale; /* or null */
  const char* bias;         /* or null */
  long long y_pitch;        /* bytes */
  long long m, n;
  float factor;
  int dtype, bias_dtype;
  int vectors; /* four elements of y are aligned, and n is a multiple of 4 */
};

struct KwMatmulParams {
  struct KwTensorMap x;      /* boxes of KW_MATMUL_ROWS rows of 128 bytes, swizzled */
  struct KwTensorMap weight; /* the same of a tile's columns, or of a block's share of them in a cluster */
  struct KwMatmulResult to;
  unsigned steps;                /* of k */
  unsigned rows, columns, group; /* tiles of all blocks, and how many rows of them a group has */
  int activation;                /* of e4m3, as device/activation.h numbers them; else 0 */
};

/* All others: csrc/ops/int8/device/matmul_{tile,few,any}.cuh */
struct KwMatmulAnyParams {
  struct KwMatmulResult to;
  const char* x;
  const char* weight;
  long long x_pitch, weight_pitch; /* bytes */
  long long k;
  unsigned columns; /* of tiles */
  unsigned group;   /* rows of tiles that are computed together */
  unsigned rows;
  int activation; /* as above */
};

#endif
