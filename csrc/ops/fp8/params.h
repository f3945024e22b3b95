/* SPDX-License-Identifier: MIT */
/* What the launchers of this family hand to their kernels, laid out alike on host and device. */
#ifndef KW_FP8_PARAMS_H
#define KW_FP8_PARAMS_H

#include "ops/int8/matmul_params.h"

struct KwQuantizeRowsFp8Params {
  char* codes;
  char* scale;
  const char* x;
  long long rows, cols;
  long long x_pitch, codes_pitch; /* bytes */
  int vectors;                    /* units of x and their codes are aligned, and rows have whole ones */
};

/* By warpgroups, as of int8. */
struct KwMatmulFp8Params {
  struct KwTensorMap x;
  struct KwTensorMap weight;
  struct KwMatmulResult to;
  unsigned steps;
  unsigned rows, columns, group;
  int activation;
};

/* Tiles of the general kernel. */
enum { KW_MATMUL_FP8_ANY = 64, KW_MATMUL_FP8_ANY_THREADS = 256 };

struct KwMatmulFp8AnyParams {
  struct KwMatmulResult to;
  const char* x;
  const char* weight;
  long long x_pitch, weight_pitch; /* bytes */
  long long k;
  unsigned columns; /* of tiles */
  int activation;
};

#endif
