/* SPDX-License-Identifier: MIT */
/* What the launcher of the derivatives of attention by warpgroups hands to its kernels, laid out alike on host and
 * device. */
#ifndef KW_ATTENTION_DERIVE_PARAMS_H
#define KW_ATTENTION_DERIVE_PARAMS_H

#include "ops/attention/params.h"

/* Derivatives by warpgroups. Scratch memory is in tiles of queries, and those of each sequence begin with one:
 * `numbers` are the logarithms of a tile's rows and then their deltas, `sums` is what becomes dq. */
struct KwAttentionDeriveParams {
  struct KwTensorMap q, k, v, dout_boxes;
  struct KwHeads out, dout, dq, dk, dv;
  const float* lse;
  float* delta; /* as above, or null */
  float *numbers, *sums;
  struct KwAttentionSizes sizes;
  struct KwScoreParams score;
  long long delta_batch, delta_head;
  int tiles;     /* of queries, of each batch and head */
  int all_tiles; /* of a head, of all sequences that lie one after the other */
  int key_tiles, section;
  int results_in_vectors;
};

#endif
