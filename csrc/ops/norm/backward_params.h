/* SPDX-License-Identifier: MIT */
/* What the launcher of a norm's derivatives hands to their kernels, laid out alike on host and device. */
#ifndef KW_NORM_BACKWARD_PARAMS_H
#define KW_NORM_BACKWARD_PARAMS_H

#include "ops/norm/params.h"

/* Where sums over the rows go: float32, or rounded to one of the types of base.h, whose numbers these are. */
enum { KW_SUMS_FLOAT32 = 0, KW_SUMS_FLOAT16 = 1, KW_SUMS_BFLOAT16 = 2 };

/* Pitches are bytes from one row to the next. */
struct KwNormBackwardParams {
  const char* dy;
  const char* h;
  const char* dsum; /* null: none */
  const char* weight;
  char* dx;
  const float* mean; /* null: to be computed */
  const float* rstd; /* null: to be computed */
  char* dweight;     /* `partials` rows of sums of dy * u; null: not wanted */
  char* dbias;       /* the same of dy */
  float* statistics; /* few: where mean and rstd of each row, or rstd alone, are left; null: not wanted */
  long long dy_pitch, h_pitch, dsum_pitch, dx_pitch;
  long long dy_step, h_step, dsum_step, dx_step; /* the same from one turn to the next */
  long long rows, step;                          /* all, and those that all blocks together do in one turn */
  long long rest;                                /* rows of the last turn, if it is not a whole one */
  int turns;                                     /* the whole ones */
  int cols;
  int weight_kind;
  int sums_kind; /* of dweight and dbias here: not float32 only where one block has all rows */
  float inverse_cols;
  float eps;
  int group;      /* lanes a row, a power of two; 32 where a row is whole warps' */
  int team_warps; /* warps of a block that share a row */
  int parts;      /* blocks that share a row: a cluster, or else each reads the others' columns too */
  int cluster;    /* they are a cluster */
  int period;     /* a power of two; so many rows apart rows begin alike within 16 bytes, of all tensors */
  int lines;      /* phased_wide: units a lane that a block has of a row, warps together */
  int warp_lines; /* and each warp at least; as many as are left over have one more */
  int times;      /* sets of rows that begin alike; if two, `turns` and `rest` are of a block's rows of both */
  int anchor;     /* phased_wide: elements, a power of two; what is before the first such a multiple is in no unit */
  int pause;      /* with two: rows that a block could do in the time from one set to the next; counted as rows */
};

struct KwNormColumnsParams {
  const char* dy;
  const char* h;
  const float* statistics; /* as KwNormBackwardParams has it */
  char* dweight;           /* null: not wanted */
  char* dbias;             /* null: not wanted */
  long long dy_pitch, h_pitch;
  unsigned rows;
  int cols;
  int sums_kind;
  unsigned lanes; /* of a row that a block has, 16 bytes each: 2 or 4 */
};

struct KwNormFinishParams {
  const float* partial; /* `partials` rows of sums for dweight, then as many for dbias */
  char* dweight;        /* null: not wanted */
  char* dbias;          /* null: not wanted */
  int partials;
  int cols;
  int sums_kind;
  int pitch;           /* sums from one row of them to the next: `cols`, or as many more as fill a quad */
  int count;           /* sums that one load brings: 4 where all rows of them begin on 16 bytes, or 1 */
  int width;           /* such loads that a block does side by side, a power of two up to 32 */
  int before_clusters; /* the next kernel may be clusters that take all of the device */
};

#endif
