// SPDX-License-Identifier: MIT
// `static`, an unnamed namespace, __FILE__, and a device function of another file.
#include <cstdio>

#include "classic.h"

namespace {
template <typename T>
__global__ void scale(T *data, T factor, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) data[i] *= factor;
}
}  // namespace

static __global__ void number(int *out) { *out = next_number(1); }

CLASSIC_API int classic_scale(float *data, float factor, int count, int *calls, cudaStream_t stream) {
  scale<<<(count + 255) / 256, 256, 0, stream>>>(data, factor, count);
  number<<<1, 1, 0, stream>>>(calls);
  const cudaError_t error = cudaGetLastError();
  if (error) fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(error));
  return error;
}

CLASSIC_API const char *classic_archs() { return CLASSIC_ARCHS; }
