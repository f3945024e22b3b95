/* SPDX-License-Identifier: MIT */
/* What the launchers of attention of 8-bit floats hand to their kernels, and its tiles, for host and device. */
#ifndef KW_ATTENTION_FP8_PARAMS_H
#define KW_ATTENTION_FP8_PARAMS_H

#include "ops/attention/params.h"

/* Warpgroups that compute, of 64 queries each; keys of a tile; stages of keys, of values, and of turned values. */
enum {
  KW_ATTENTION_FP8_GROUPS = 2,
  KW_ATTENTION_FP8_ROWS = 64 * KW_ATTENTION_FP8_GROUPS,
  KW_ATTENTION_FP8_THREADS = 128 * (KW_ATTENTION_FP8_GROUPS + 1),
  KW_ATTENTION_FP8_KEYS = 128,
  KW_ATTENTION_FP8_STAGES = 3
};

/* Shared memory: queries, the stages, results in 16 bits, a word for each thread that computes, barriers. Up to 1024
 * bytes go where they begin on a multiple of as many. */
#define KW_ATTENTION_FP8_SHARED(d)                                                                  \
  (1024 + KW_ATTENTION_FP8_ROWS * (d) + 3 * KW_ATTENTION_FP8_STAGES * KW_ATTENTION_FP8_KEYS * (d) + \
   KW_ATTENTION_FP8_ROWS * (d) * 2 + KW_ATTENTION_FP8_GROUPS * 512 + 256)

/* The general kernel: warps of a block, each with a query at a time; elements of a row. */
enum { KW_ATTENTION_FP8_WARPS = 4, KW_ATTENTION_FP8_MOST = 256 };

/* A factor of each head of each batch, or null: 1. Elements from one to the next. */
struct KwHeadScales {
  const float* data;
  long long batch, head;
};

struct KwAttentionFp8Scales {
  struct KwHeadScales q, k, v;
};

struct KwAttentionFp8TmaParams {
  struct KwAttentionTmaParams of;
  struct KwAttentionFp8Scales scales;
  int is_half; /* results are float16, else bfloat16 */
};

struct KwAttentionFp8Params {
  struct KwHeads q, k, v, out;
  float* lse; /* or null */
  struct KwAttentionSizes sizes;
  struct KwScoreParams score;
  struct KwAttentionFp8Scales scales;
  int dtype; /* of results: 0 float32, 1 float16, 2 bfloat16, as KW_FLOAT32 and so on */
};

#endif
