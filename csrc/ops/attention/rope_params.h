/* SPDX-License-Identifier: MIT */
/* What the launcher of rope hands to its kernels, laid out alike on host and device. */
#ifndef KW_ROPE_PARAMS_H
#define KW_ROPE_PARAMS_H

#include "ops/attention/params.h"

/* Cosines or sines, a row for each position. Bytes. */
struct KwRopeTable {
  const char* data;
  long long batch, row;
};

struct KwRopeParams {
  struct KwHeads q, k, q_out, k_out; /* of k, data may be null */
  struct KwRopeTable cos, sin;
  const int* positions;                     /* which row of the tables, or null */
  long long positions_batch, positions_row; /* elements */
  int adds_row;                             /* positions are those of first rows */
  int max_positions;                        /* rows of the tables */
  int step;                                 /* elements of a table from one pair to the next */
  int wide;                                 /* tables are of float32 */
  /*
   * An item is so many pairs as one load brings elements, or, behind the pairs, so many elements twice that are only
   * copied. Threads of a row of the sequence: `items` of each of `groups` of heads, head i in group i % groups.
   */
  unsigned items, turning;       /* the latter of pairs */
  unsigned groups, row_threads;  /* the latter are items * groups */
  unsigned heads, q_heads;       /* of q and k together */
  unsigned first, rows, threads; /* the launch's first row of all batches; rows of a batch; threads of the launch */
  int pairs, d;
  int interleaved, inverse;
};

#endif
