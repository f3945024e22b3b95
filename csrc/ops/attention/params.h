/* SPDX-License-Identifier: MIT */
/* What the launchers of attention hand to their kernels, laid out alike on host and device. */
#ifndef KW_ATTENTION_PARAMS_H
#define KW_ATTENTION_PARAMS_H

#include "device/tensor_map.h"

/* Where a tensor of heads lies. Bytes from one batch, head and row to the next; within a row elements are adjacent. */
struct KwHeads {
  char* data;
  long long batch, head, row;
};

/* A number for each score, or none: data is null. Bytes. */
struct KwScoreTensor {
  const char* data;
  long long batch, head, row, column;
};

/* What scores are, and which keys a query sees. */
struct KwScoreParams {
  struct KwScoreTensor mask, bias;
  const float* sinks;                  /* of each head, or null */
  const float* slopes;                 /* of ALiBi, or null */
  long long slopes_batch, slopes_head; /* elements */
  float scale;                         /* of products; then softcap, where it is not 0 */
  float softcap;
  int window_left, window_right; /* keys before and behind a query's position; causal is in window_right. -1: all */
  int bias_is_float;             /* 32 bits */
};

/* Sizes. Of sequences of different lengths, first rows are in starts_q and starts_k, and queries, keys are the most. */
struct KwAttentionSizes {
  const int *starts_q, *starts_k;
  int batch, heads, kv_heads, queries, keys, d, d_v;
  long long lse_batch, lse_head; /* elements; a row's neighbours are adjacent */
};

struct KwAttentionParams {
  struct KwHeads q, k, v, out;
  float* lse; /* or null */
  struct KwAttentionSizes sizes;
  struct KwScoreParams score;
  int tiles;       /* of queries, of each batch and head */
  int section;     /* heads, of all batches, that are computed together */
  int vectors;     /* all rows of q, k and v lie on 16 bytes, and d and d_v are multiples of 8 */
  int out_vectors; /* the same of out */
};

/* By warpgroups: boxes of a head's rows by TMA. Coordinates: element, row, head, batch. */
struct KwAttentionTmaParams {
  struct KwTensorMap q, k, v;
  struct KwHeads out;
  float* lse; /* or null */
  struct KwAttentionSizes sizes;
  struct KwScoreParams score;
  int tiles, section;
  int count; /* of tiles, of all batches and heads */
  int out_vectors;
};

/* Derivatives; `delta` is scratch memory: a number for each row of each head, of whole sequences one after the other.
 */
struct KwAttentionBackwardParams {
  struct KwHeads q, k, v, out, dout, dq, dk, dv;
  const float* lse;
  float* delta;
  float* dsinks; /* or null */
  struct KwAttentionSizes sizes;
  struct KwScoreParams score;
  long long delta_batch, delta_head, delta_rows, delta_heads; /* elements; rows of a head, heads of all batches */
  int tiles;                                                  /* of queries, of each batch and head */
  int section;                                                /* heads, of all batches, that are computed together */
  int vectors;                                                /* as above, of q, k, v and dout */
  int results_in_vectors;                                     /* of dq, dk and dv */
};

#endif
