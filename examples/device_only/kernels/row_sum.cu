// SPDX-License-Identifier: MIT
// The sum of each row, one block a row: partial sums, a warp's by shuffles, the block's by shared memory.
template <typename T>
__device__ void row_sum(const T *x, T *out, long long size) {
  __shared__ T part[8];
  T sum = 0;
  for (long long i = threadIdx.x; i < size; i += 256) sum += x[blockIdx.x * size + i];
  for (int step = 16; step; step /= 2) sum += __shfl_xor_sync(0xffffffff, sum, step);
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int i = 1; i < 8; ++i) sum += part[i];
    out[blockIdx.x] = sum;
  }
}

extern "C" __global__ void row_sum_float32(const float *x, float *out, long long size) { row_sum(x, out, size); }
extern "C" __global__ void row_sum_float64(const double *x, double *out, long long size) { row_sum(x, out, size); }
