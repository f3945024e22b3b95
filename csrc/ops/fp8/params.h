/* SPDX-License-Identifier: MIT */
/* What the launcher of quantize_rows_fp8 hands to its kernels, in one layout on host and device. */
#ifndef KW_FP8_PARAMS_H
#define KW_FP8_PARAMS_H

struct KwQuantizeRowsFp8Params {
  char* codes;
  char* scale;
  const char* x;
  long long rows, cols;
  long long x_pitch, codes_pitch; /* bytes */
  int vectors;                    /* units of x and their codes are aligned, and rows have whole ones */
};

#endif
