// SPDX-License-Identifier: MIT
#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include <Python.h>

static __global__ void scale_kernel(const float *x, float *y, float factor, int64_t count) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < count) y[i] = x[i] * factor;
}

static at::Tensor scale(const at::Tensor &x, double factor) {
  TORCH_CHECK(x.is_cuda() && x.scalar_type() == at::kFloat, "scale: x is a float32 tensor of a GPU");
  const c10::cuda::CUDAGuard guard(x.device());
  const at::Tensor in = x.contiguous();
  at::Tensor out = at::empty_like(in);
  const int64_t count = in.numel();
  if (count == 0) return out;
  scale_kernel<<<(count + 255) / 256, 256, 0, c10::cuda::getCurrentCUDAStream()>>>(
      in.const_data_ptr<float>(), out.mutable_data_ptr<float>(), static_cast<float>(factor), count);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}

TORCH_LIBRARY(scaled, m) { m.def("scale(Tensor x, float factor) -> Tensor"); }
TORCH_LIBRARY_IMPL(scaled, CUDA, m) { m.impl("scale", scale); }

static PyModuleDef module = {PyModuleDef_HEAD_INIT, "_C", nullptr, -1, nullptr};
PyMODINIT_FUNC PyInit__C() { return PyModule_Create(&module); }
