/* SPDX-License-Identifier: MIT */
/* A parameter of kernels that copy boxes of a tensor (TMA): what the driver makes of its description. */
#ifndef KW_DEVICE_TENSOR_MAP_H
#define KW_DEVICE_TENSOR_MAP_H

struct alignas(64) KwTensorMap {
  unsigned long long opaque[16];
};

#endif
