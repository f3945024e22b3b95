/* SPDX-License-Identifier: MIT */
/* What the launchers of this family hand to their kernels, laid out alike on host and device. */
#ifndef KW_TERNARY_PARAMS_H
#define KW_TERNARY_PARAMS_H

#include "device/tensor_map.h"
#include "ops/ternary/geometry.h"

/* Element types of a result, as the C ABI numbers them. */
enum { KW_TERNARY_FLOAT32 = 0, KW_TERNARY_FLOAT16 = 1, KW_TERNARY_BFLOAT16 = 2, KW_TERNARY_INT32 = 6 };

/* What becomes of the sums of integers. */
struct KwTernaryEnd {
  char* y;
  const char* absmax; /* a float32 for each row of x; null: 127 each */
  const char* scale;  /* a float32, or one for each row of the weight; null: 1 */
  const char* bias;   /* an element of y's type for each row of the weight, or null */
  long long y_pitch;  /* bytes */
  unsigned m, n;
  int scales; /* one for each row of the weight */
  int type;   /* of y */
};

/* Few rows of x: csrc/ops/ternary/device/few.cuh; half as many warps for 32 rows, for whose sums there must be
 * registers */
enum { KW_TERNARY_FEW_WARPS = 16, KW_TERNARY_FEW_PITCH = 20 };

/* Blocks of the weight that a warp has on their way: more where a multiprocessor has more memory, and reads faster. */
enum { KW_TERNARY_FEW_STAGES = 4, KW_TERNARY_FEW_STAGES_WGMMA = 8 };

struct KwMatmulTernaryFewParams {
  struct KwTernaryEnd end;
  const char* x;
  const char* packed;
  long long x_pitch;
  unsigned k;
  unsigned groups;       /* of 16 rows of the weight */
  unsigned blocks;       /* of 128 of k */
  unsigned chunk_blocks; /* whose x is in shared memory at a time */
  unsigned slots;        /* for partial sums */
  int vectors;           /* rows of x begin on 16 bytes */
};

/* Few rows that are quantized by every block: csrc/ops/ternary/device/linear.cuh. Of each row there are, in shared
 * memory, what warps found, and then its factors. */
enum {
  KW_LINEAR_TERNARY_ROWS = 16,
  KW_LINEAR_TERNARY_FACTORS = 2 * 32 * 4,
  KW_LINEAR_TERNARY_ROW = KW_LINEAR_TERNARY_FACTORS + 16
};

struct KwLinearTernaryParams {
  struct KwMatmulTernaryFewParams few; /* whose x has rows of end.type */
  const char* weight;                  /* of the norm, or null */
  const char* residual;                /* is added to the result, or null */
  long long residual_pitch;            /* bytes */
  float clamp, eps;                    /* below 0: no norm */
  unsigned warps;                      /* that quantize_rows_int8 has for a row: sums are added in its order */
  int weight_vectors;
  int weight_is_float; /* whatever x is */
};

/* Tiles by warps: csrc/ops/ternary/device/tiles.cuh */
enum {
  KW_TERNARY_TILE_ROWS = 128, /* of the weight */
  KW_TERNARY_TILE_COLUMNS = 128,
  KW_TERNARY_TILE_WARPS = 4,
  KW_TERNARY_TILE_STAGES = 3,
  KW_TERNARY_SLICE_BYTES = 32 * 20 * 4, /* of a warp: 32 columns of 16 sums */
  KW_TERNARY_TILE_SHARED = KW_TERNARY_TILE_STAGES * KW_TERNARY_TILE_COLUMNS * 128
};

struct KwMatmulTernaryTileParams {
  struct KwTernaryEnd end;
  const char* x;
  const char* packed;
  long long x_pitch;
  unsigned k, groups, blocks;
  unsigned rows, columns, group; /* tiles of the weight and of x, and how many of the weight's a group has */
  int vectors;                   /* rows of x begin on 16 bytes */
};

/* Tiles by warpgroups: csrc/ops/ternary/device/warpgroups.cuh */
enum {
  KW_TERNARY_WIDE_STAGES = 9,
  KW_TERNARY_STAGES_OF_64 = 15,
  KW_TERNARY_STAGES_OF_32 = 22,
  KW_TERNARY_WIDE_THREADS = 384
};
#define KW_TERNARY_STAGE_BYTES(columns) ((columns) * 128 + KW_TERNARY_TILE_ROWS / KW_TERNARY_ROWS * KW_TERNARY_BLOCK)
#define KW_TERNARY_WIDE_SHARED(columns, stages) \
  (1024 + (stages) * KW_TERNARY_STAGE_BYTES(columns) + 8 * KW_TERNARY_SLICE_BYTES + (stages) * 16 + 16)

struct KwMatmulTernaryWideParams {
  struct KwTensorMap x;      /* boxes of rows of x, or of a block's share of them in a cluster, 128 bytes swizzled */
  struct KwTensorMap packed; /* boxes of 8 blocks, one above the other */
  struct KwTernaryEnd end;
  unsigned steps;                /* blocks of k; by two, where x has tiles of 32 or 64 rows */
  unsigned rows, columns, group; /* tiles of the weight and of x, and how many of the weight's a group has */
};

/* Weights to codes and back: csrc/ops/ternary/device/codes.cuh */
struct KwTernaryCodesParams {
  char* packed;
  char* scale;
  char* wide;
  long long pitch; /* bytes, of rows of `wide` */
  unsigned n, k, groups, blocks;
  int scales; /* one a row */
  int vectors;
};

#endif
