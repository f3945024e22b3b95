/* SPDX-License-Identifier: MIT */
/* What the launcher of a norm hands to its kernels: the one by-value parameter, laid out alike on host and device. */
#ifndef KW_NORM_PARAMS_H
#define KW_NORM_PARAMS_H

/* How weight or bias lies in memory. */
enum { KW_WEIGHT_NONE = 0, KW_WEIGHT_LIKE_X = 1, KW_WEIGHT_FLOAT32 = 2 /* of 16-bit x */ };

/* Pitches are bytes from one row to the next. Of walk, `group` is after how many rows they lie alike again. */
struct KwNormParams {
  const char* x;
  const char* residual; /* null without */
  const char* weight;
  const char* bias;
  char* y;
  char* sum;   /* null without residual */
  float* mean; /* mean, bias: LayerNorm's */
  float* rstd;
  long long x_pitch, residual_pitch, y_pitch, sum_pitch;
  long long rows;
  int cols;
  int weight_kind;
  int bias_kind;
  float inverse_cols;
  float eps;
  int group;         /* narrow, scalar, flat, staged: lanes a row, a power of two up to 32; walk: see above */
  int row_is_a_warp; /* row, shifted, stream, slide: a row is a warp's; else a block's, or a cluster's. walk: 0 */
  int slots;         /* row, shifted, long, pair, walk: units a thread, at most as many as the kernel has room for */
  int cluster_log2;  /* row, shifted, long, pair, walk: blocks a row, as a power of two; else 0 */
  int keep;          /* row, shifted, long, pair, walk, flat, staged: L2 is to keep what is read longest */
  int alike; /* shifted, slide: every row begins equally far off 16 bytes in all tensors of x's type but weights */
  int rows_a_block;    /* flat, staged */
  unsigned cols_magic; /* flat: 2^32 / cols, rounded up; the high word of its product with n is n / cols */
};

#endif
