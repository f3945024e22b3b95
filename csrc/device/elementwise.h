/* SPDX-License-Identifier: MIT */
/* What core/elementwise.cpp hands to the kernels of device/elementwise.cuh, laid out alike on host and device. */
#ifndef KW_DEVICE_ELEMENTWISE_H
#define KW_DEVICE_ELEMENTWISE_H

enum {
  KW_ELEMENTWISE_INPUTS = 3,
  KW_ELEMENTWISE_OUTPUTS = 2,
  KW_ELEMENTWISE_NUMBERS = 4,
  KW_ELEMENTWISE_THREADS = 256,
  KW_ELEMENTWISE_VECTOR = 16 /* bytes */
};

/* Addresses and pitches are bytes. A row begins with `units` vectors; what follows them goes by elements. */
struct KwElementwiseParams {
  const char* in[KW_ELEMENTWISE_INPUTS];
  char* out[KW_ELEMENTWISE_OUTPUTS];
  long long in_pitch[KW_ELEMENTWISE_INPUTS], out_pitch[KW_ELEMENTWISE_OUTPUTS];
  long long rows, units, elements;
  float number[KW_ELEMENTWISE_NUMBERS];
};

#endif
