// SPDX-License-Identifier: MIT
// Layer normalisation of rows: one warp a row, by elements, read three times.
#include "element.cuh"
#include "ptx_memory.cuh"
#include "reduce.cuh"

struct KwLayerNormParams {
  const char *x, *weight, *bias;
  char* y;
  long long x_pitch, y_pitch;
  int cols;
  float inverse_cols, eps;
};

namespace kw {

template <class T>
__device__ __forceinline__ float element_at(const char* row, u32 column) {
  Unit<T, T::kSize> unit;
  load<T::kSize>(row + column * T::kSize, unit.word);
  float value;
  unit.unpack(&value);
  return value;
}

template <class T>
__device__ __forceinline__ void layer_norm_warp(const KwLayerNormParams& p) {
  const char* const x = p.x + static_cast<i64>(blockIdx.x) * p.x_pitch;
  char* const y = p.y + static_cast<i64>(blockIdx.x) * p.y_pitch;
  const u32 cols = static_cast<u32>(p.cols);
  float sum = 0.0f, squares = 0.0f;
  for (u32 i = threadIdx.x; i < cols; i += kWarp) sum += element_at<T>(x, i);
  const float mean = warp_sum(sum) * p.inverse_cols;
  for (u32 i = threadIdx.x; i < cols; i += kWarp) {
    const float deviation = element_at<T>(x, i) - mean;
    squares = fmaf(deviation, deviation, squares);
  }
  const float rstd = rsqrt_approx(fmaf(warp_sum(squares), p.inverse_cols, p.eps));
  for (u32 i = threadIdx.x; i < cols; i += kWarp) {
    float value = (element_at<T>(x, i) - mean) * rstd;
    if (p.weight) value *= element_at<T>(p.weight, i);
    if (p.bias) value += element_at<T>(p.bias, i);
    Unit<T, T::kSize> unit;
    unit.pack(&value);
    store<T::kSize>(y + i * T::kSize, unit.word);
  }
}

}  // namespace kw

#define KW_KERNEL(type, T)                                                                             \
  extern "C" __global__ void __launch_bounds__(32) layer_norm_warp_##type(const KwLayerNormParams p) { \
    kw::layer_norm_warp<kw::T>(p);                                                                     \
  }
KW_KERNEL(float32, Float32)
KW_KERNEL(float16, Float16)
KW_KERNEL(bfloat16, BFloat16)
