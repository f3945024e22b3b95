// SPDX-License-Identifier: MIT
// CUB: its kernels are templates in namespaces whose names nvcc makes from the path of this file.
#include <cub/device/device_radix_sort.cuh>

#include "classic.h"

CLASSIC_API int classic_sort(const float *keys, float *sorted, int count, void *room, size_t *size, cudaStream_t stream) {
  return cub::DeviceRadixSort::SortKeys(room, *size, keys, sorted, count, 0, 32, stream);
}
