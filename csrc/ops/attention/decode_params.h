/* SPDX-License-Identifier: MIT */
/* What the launcher of attention of few queries hands to its kernels, laid out alike on host and device. */
#ifndef KW_ATTENTION_DECODE_PARAMS_H
#define KW_ATTENTION_DECODE_PARAMS_H

#include "ops/attention/params.h"

/* Turning of the first elements of rows by their positions (rope): cos and sin of angles, or null. */
struct KwRope {
  const char *cos, *sin;
  long long row;     /* bytes from one position to the next */
  int pairs;         /* elements that are turned are twice as many */
  int interleaved;   /* an element's partner is its neighbour, else the one so many behind it */
  int max_positions; /* rows of cos */
  int moves;         /* each query has a position of its own */
};

struct KwDecodeParams {
  struct KwHeads q, k, v, out; /* of caches in pages `batch` is from one page to the next */
  struct KwHeads k_new, v_new; /* rows to be appended to the caches; data is null: none */
  float* lse;                  /* or null */
  long long lse_batch, lse_head;
  const int* lengths;     /* of each batch, rows in the cache before any are appended; null: all rows are there */
  const int* batch_index; /* which batch of the caches, or null */
  const int* pages;       /* which page has which rows, or null */
  long long pages_stride; /* elements */
  int page_rows;
  struct KwScoreParams score;
  struct KwRope rope;
  int batch, heads, kv_heads, queries, keys, new_rows, d, d_v; /* keys: rows that a cache has room for */
  int row_tiles, splits;
  float*
      sums; /* of splits: [split][batch][head][query][d_v], and after them the largest score and the sum of each row */
  float* states;
  int vectors, q_vectors, out_vectors; /* rows of the caches, of q, of out lie on 16 bytes */
};

#endif
