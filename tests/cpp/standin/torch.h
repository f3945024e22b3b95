/* SPDX-License-Identifier: MIT */
/* What the stand-in for libtorch_cpu.so takes for a tensor, and its numbers; none is torch's own or the library's. */
#ifndef STANDIN_TORCH_H
#define STANDIN_TORCH_H

#include <stdint.h>

enum { STANDIN_FLOAT32 = 40, STANDIN_FLOAT16 = 31, STANDIN_BFLOAT16 = 22, STANDIN_FLOAT64 = 13 };
enum { STANDIN_UINT8 = 50, STANDIN_INT8 = 61, STANDIN_INT32 = 72, STANDIN_FLOAT8_E4M3FN = 83 };
enum { STANDIN_CPU = 8, STANDIN_CUDA = 5, STANDIN_META = 0 };

struct StandinTensor {
  const void* functions; /* as a c10::TensorImpl begins */
  int64_t fails;         /* which function has an error for this tensor: 1 to 8, in the order of torch.c */
  void* data;
  const int64_t *sizes, *strides;
  int64_t dims;
  int32_t dtype, device_type, device_index;
  int64_t bytes; /* of its storage */
};

#endif
