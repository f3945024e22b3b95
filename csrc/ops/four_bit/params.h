/* SPDX-License-Identifier: MIT */
/* What the launchers of the 4-bit operators hand to their kernels, laid out alike on host and device. */
#ifndef KW_FOUR_BIT_PARAMS_H
#define KW_FOUR_BIT_PARAMS_H

#include "device/tensor_map.h"

/*
 * The scales of a tensor's blocks: `absmax`, or where that is null the four others. A weight that was joined has an
 * offset for each of its parts; block b is in part (b * part_magic >> 32) >> part_shift.
 */
struct KwScales4bit {
  const char* absmax;
  const char* codes;
  const char* absmax2;
  const char* map;
  const char* offset;
  int block_log2; /* elements a block */
  unsigned parts;
  unsigned part_magic; /* 0 where there is one */
  int part_shift;
};

struct KwDequantize4bitParams {
  char* y;
  const char* packed;
  struct KwScales4bit scales;
  long long count;
  int aligned; /* y and packed, for whole units of 16 bytes of y */
  float values[16];
};

/*
 * Of a scaled value v the bucket is 16 - 15.25 * v, rounded: so narrow that at most one bound lies in it. The place of
 * v is how many bounds lie in the buckets of smaller values, and one more where it exceeds its own bucket's bound.
 */
struct KwQuantize4bitParams {
  char* packed;
  char* absmax;
  const char* x;
  long long count;
  int block_log2;
  int aligned;
  unsigned kept;  /* the bits of a scaled value that its place depends on: of FP4 all but the sign */
  unsigned order; /* FP4: the codes by their places, four bits each; else 0, where a place is its code */
  float bound[32];
  unsigned below[32];
};

struct KwQuantizeAbsmax4bitParams {
  char* codes;
  char* absmax2;
  const char* absmax;
  const char* offset;
  const char* map;
  long long count;
};

/* y[m][n] = x[m][k] * weight[n][k]. Pitches are bytes. */
struct KwMatmul4bitParams {
  char* y;
  const char* x;
  const char* packed;
  const char* bias; /* null: none */
  struct KwScales4bit scales;
  long long y_pitch, x_pitch;
  long long m, n, k;
  float values[16]; /* of codes, times a factor in the kernels on tensor cores */
  float by;         /* 1 over that factor */
  /* The kernels on tensor cores: csrc/ops/four_bit/device/matmul_tile.cuh */
  unsigned row_chunks;   /* 32 of k, a row */
  unsigned last_chunk;   /* of all the weight's, counted through */
  unsigned tiles;        /* of the weight's rows */
  unsigned steps;        /* of k, a tile */
  unsigned row_warps;    /* warps side by side along the rows of a tile */
  unsigned k_warps_log2; /* and along k, each of which takes four chunks of a step */
  unsigned stages;       /* of the pipeline: 2, 3 or 4 */
  /* Those for few rows of x: csrc/ops/four_bit/device/matmul_gemv.cuh */
  unsigned row_blocks;  /* 64 of k, a row; `steps` and `k_warps_log2` as above */
  unsigned last_block;  /* of two, of the weight's, counted through */
  unsigned block_units; /* a block, of rows of the weight */
  unsigned more_units;  /* blocks, the first, that have one more */
  unsigned group_units; /* of a block that are added up at once */
  int part_shift;       /* as that of `scales`, of blocks of 64 of k */
  /* Those in float32: `tiles` is the blocks of the weight's rows, `k_warps_log2` as above */
  int vectors; /* x and its pitch are for 16 bytes */
};

/* x of m rows as csrc/ops/four_bit/device/matmul_narrow_x.cuh has it. */
struct KwMatmul4bitNarrowXParams {
  char* to;
  const char* x;
  long long x_pitch;
  unsigned m;
  unsigned rows; /* m, up to whole groups */
  unsigned group_log2;
  unsigned slices; /* of k, 64 each */
  int aligned;     /* x, for words of two elements */
  int early;       /* whether the product may begin before this kernel has waited: it waits for all of it then */
};

/* The product by warpgroups: csrc/ops/four_bit/device/matmul_narrow.cuh */
struct KwMatmul4bitNarrowParams {
  struct KwTensorMap codes;        /* bytes, boxes of a warp's step */
  struct KwTensorMap float_scales; /* boxes of half of a warp's rows, for which there are two */
  int boxed_scales;                /* whether there are these; else each scale is made of these two and `scales` */
  unsigned code_mask;   /* 255; 0 where scales are floats as they came, which absmax2 and all others are then */
  unsigned scales_log2; /* of absmax2 */
  char* y;
  const char* x; /* in that form */
  const char* packed;
  const char* bias; /* null: none */
  struct KwScales4bit scales;
  long long y_pitch;
  unsigned m, n;
  unsigned slices; /* of k, 64 each */
  unsigned groups; /* of rows of x */
  unsigned split;  /* blocks that share k: a cluster, or half of one */
  unsigned pieces; /* of k besides, by clusters that know nothing of each other */
  char* sums;      /* those of the pieces, float32 [pieces, m, n]; null where there is one */
  unsigned sides;  /* 1, or 2: blocks of a cluster that have rows side by side and share the last ones */
  float values[16];
  float by;
};

/* y of the pieces' sums: csrc/ops/four_bit/device/matmul_narrow_sum.cuh */
struct KwMatmul4bitNarrowSumParams {
  char* y;
  const char* sums;
  const char* bias; /* null: none */
  long long y_pitch;
  unsigned m, n;
  unsigned row_blocks; /* of threads, a row of y */
  unsigned pieces;
  float by;
};

/* Blocks that each add up a range of k of some tiles: csrc/ops/four_bit/device/matmul_wide.cuh */
struct KwMatmul4bitWideParams {
  struct KwTensorMap x;     /* boxes of half a tile's rows, 64 of k, 128 bytes swizzled */
  struct KwTensorMap codes; /* bytes, boxes of a block's rows, 64 of k, 32 bytes swizzled */
  char* y;
  const char* bias; /* null: none */
  struct KwScales4bit scales;
  long long y_pitch;
  unsigned m, n;
  unsigned chunks;               /* of 32 of k, of a row */
  unsigned steps;                /* of 64 of k */
  unsigned rows, columns, group; /* tiles of a pair of blocks: of the weight's rows, of x; how many of x go together */
  unsigned whole;                /* tiles, the first, that a pair computes alone, in turn */
  unsigned split;                /* steps of the others, of which each pair has a share */
  char* sums;                    /* float32, of tiles that pairs share; null where `split` is 0 */
  unsigned* ready;               /* of each warp, whether its sums are there */
  int vectors;                   /* y and its pitch are for 16 bytes */
  float values[16];
};

/* Before it: so many words of 0. */
struct KwMatmul4bitWideBeginParams {
  unsigned* ready;
  unsigned count;
};

#endif
