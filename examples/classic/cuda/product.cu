// SPDX-License-Identifier: MIT
// cuBLAS, linked and never packed: who installs the wheel has it from NVIDIA's packages or a toolkit.
#include <cublas_v2.h>

#include "classic.h"

// c = a b, float32, all by columns: a has m rows, b has n columns, k is what both share.
CLASSIC_API int classic_product(const float *a, const float *b, float *c, int m, int n, int k, cudaStream_t stream) {
  cublasHandle_t handle;
  cublasStatus_t status = cublasCreate(&handle);
  if (status) return status;
  const float one = 1, zero = 0;
  status = cublasSetStream(handle, stream);
  if (!status) status = cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, m, n, k, &one, a, m, b, k, &zero, c, m);
  cublasDestroy(handle);
  return status;
}
