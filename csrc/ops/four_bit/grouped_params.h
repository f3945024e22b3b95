/* SPDX-License-Identifier: MIT */
/* What the launcher of the products with experts' weights hands to its kernels, laid out alike on host and device. */
#ifndef KW_FOUR_BIT_GROUPED_PARAMS_H
#define KW_FOUR_BIT_GROUPED_PARAMS_H

#include "ops/four_bit/params.h"

#define KW_GROUPED_COLS 32 /* rows of x that a tile multiplies at once */

struct KwMatmul4bitGroupedParams {
  struct KwMatmul4bitParams all; /* with the rows of x of all, and the weight of the first */
  const char* ends;              /* of each expert's rows of x, int32 */
  unsigned experts;
  unsigned rows_log2;      /* of x, of a group of one expert's */
  unsigned groups;         /* that there may be */
  long long expert_bytes;  /* of codes, of each */
  long long expert_scales; /* how many, of each */
};

#endif
