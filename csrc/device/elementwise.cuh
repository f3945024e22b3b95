// SPDX-License-Identifier: MIT
// Kernels of operators that compute each element by itself, of up to three tensors' elements at its place. F says how:
//
//   struct Softcap {
//     static constexpr int kInputs = 1, kOutputs = 1;
//     static __device__ __forceinline__ void apply(const float* in, float* out, const float* number);
//   };
//   KW_ELEMENTWISE_KERNELS(softcap, Softcap)
//
// `number` has what the host gave, such as a scale. A thread reads its elements of all inputs before it writes: results
// may take the place of inputs.
#pragma once

#include "device/element.cuh"
#include "device/elementwise.h"
#include "device/ptx/memory.cuh"
#include "device/ptx/sync.cuh"

namespace kw {

template <class F, class T, int kBytes>
__device__ __forceinline__ void elementwise_unit(const KwElementwiseParams& p, i64 row, i64 offset) {
  using Piece = Unit<T, kBytes>;
  float in[F::kInputs][Piece::kCount], out[F::kOutputs][Piece::kCount];
  Piece piece[F::kInputs];
#pragma unroll
  for (int k = 0; k < F::kInputs; ++k) load<kBytes>(p.in[k] + row * p.in_pitch[k] + offset, piece[k].word);
#pragma unroll
  for (int k = 0; k < F::kInputs; ++k) piece[k].unpack(in[k]);
#pragma unroll
  for (int i = 0; i < Piece::kCount; ++i) {
    float x[F::kInputs], y[F::kOutputs];
#pragma unroll
    for (int k = 0; k < F::kInputs; ++k) x[k] = in[k][i];
    F::apply(x, y, p.number);
#pragma unroll
    for (int k = 0; k < F::kOutputs; ++k) out[k][i] = y[k];
  }
#pragma unroll
  for (int k = 0; k < F::kOutputs; ++k) {
    Piece result;
    result.pack(out[k]);
    store<kBytes>(p.out[k] + row * p.out_pitch[k] + offset, result.word);
  }
}

// `count` units of each row, which begin at `first` in it.
template <class F, class T, int kBytes>
__device__ __forceinline__ void elementwise_units(const KwElementwiseParams& p, i64 first, i64 count) {
#pragma unroll 1
  for (i64 i = i64{blockIdx.x} * blockDim.x + threadIdx.x; i < p.rows * count; i += i64{gridDim.x} * blockDim.x) {
    const i64 row = p.rows == 1 ? 0 : i / count;
    elementwise_unit<F, T, kBytes>(p, row, first + (i - row * count) * kBytes);
  }
}

template <class F, class T>
__device__ __forceinline__ void elementwise(const KwElementwiseParams& p) {
  allow_next_kernel();
  wait_for_previous_kernel();
  elementwise_units<F, T, KW_ELEMENTWISE_VECTOR>(p, 0, p.units);
  elementwise_units<F, T, T::kSize>(p, p.units * KW_ELEMENTWISE_VECTOR, p.elements);
}

}  // namespace kw

#define KW_ELEMENTWISE_KERNEL_(name, F, T)                                                                 \
  extern "C" __global__ void __launch_bounds__(KW_ELEMENTWISE_THREADS) name(const KwElementwiseParams p) { \
    kw::elementwise<F, kw::T>(p);                                                                          \
  }
#define KW_ELEMENTWISE_KERNELS(name, F)              \
  KW_ELEMENTWISE_KERNEL_(name##_float32, F, Float32) \
  KW_ELEMENTWISE_KERNEL_(name##_float16, F, Float16) \
  KW_ELEMENTWISE_KERNEL_(name##_bfloat16, F, BFloat16)
