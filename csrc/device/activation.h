/* SPDX-License-Identifier: MIT */
/* The activations that kernels know, numbered for host and device alike. */
#ifndef KW_DEVICE_ACTIVATION_H
#define KW_DEVICE_ACTIVATION_H

enum {
  KW_ACTIVATION_NONE = 0,
  KW_ACTIVATION_RELU = 1,
  KW_ACTIVATION_SQUARED_RELU = 2,
  KW_ACTIVATION_SILU = 3,
  KW_ACTIVATION_GELU = 4,
  KW_ACTIVATION_GELU_TANH = 5
};

#endif
