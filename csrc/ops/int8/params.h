/* SPDX-License-Identifier: MIT */
/* What the launchers of this family hand to their kernels, in one layout on host and device. */
#ifndef KW_INT8_PARAMS_H
#define KW_INT8_PARAMS_H

/* Rows of a launch's blocks where a warp has a row, and threads of every block that has a fixed number. */
enum { KW_QUANTIZE_ROWS_WARPS = 8, KW_QUANTIZE_ROWS_THREADS = 256 };

/* Units of 16 bytes of x that a thread holds. */
enum { KW_QUANTIZE_ROWS_UNITS = 4 };

/* What a launch does: all at once; or with outliers in several rows, of which each may have one in any column, first
 * absmax and those columns, then the codes. */
enum { KW_QUANTIZE_ROWS_ALL = 0, KW_QUANTIZE_ROWS_MEASURE = 1, KW_QUANTIZE_ROWS_WRITE = 2 };

struct KwQuantizeRowsParams {
  char* codes;
  char* absmax;
  char* sums;     /* or null */
  char* outliers; /* or null */
  const char* x;
  const char* weight; /* or null */
  long long rows, cols;
  long long x_pitch, codes_pitch; /* bytes */
  float clamp;
  float threshold; /* 0: none */
  float eps;       /* below 0: no norm */
  int vectors;     /* units of x and their codes are aligned, and rows have whole ones */
  int weight_vectors;
  int weight_is_float; /* whatever x is */
  int phase;           /* one of the above */
};

#endif
