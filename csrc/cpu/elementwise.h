// SPDX-License-Identifier: MIT
// The CPU path of operators that compute each element by itself, on the vectors of an instruction set. Included once by
// the operator's file, which says how, in no namespace:
//
//   struct Softcap {
//     static constexpr int kInputs = 1, kOutputs = 1;
//     static void apply(const Vec* in, Vec* out, const Vec* number);
//   };
//   KW_CPU_ELEMENTWISE(softcap, Softcap)
//
// The structure stands in namespace kw::cpu::KW_ISA, in an unnamed one there.
#pragma once

#include "core/elementwise_call.h"
#include "cpu/simd.h"

namespace kw::cpu::KW_ISA {
namespace {

template <class F, class T>
struct ElementwiseRun {
  const ElementwiseCall& call;
  Vec number[KW_ELEMENTWISE_NUMBERS];

  explicit ElementwiseRun(const ElementwiseCall& call) : call(call) {
    for (int k = 0; k < KW_ELEMENTWISE_NUMBERS; ++k) number[k] = all(call.number[k]);
  }

  template <class Load, class Store>
  void vectors(int64_t row, int64_t i, Load read, Store write) const {
    Vec in[F::kInputs], out[F::kOutputs];
    for (int k = 0; k < F::kInputs; ++k)
      in[k] = read(static_cast<const T*>(call.in[k].data) + row * call.in[k].stride + i);
    F::apply(in, out, number);
    for (int k = 0; k < F::kOutputs; ++k)
      write(static_cast<T*>(call.out[k].data) + row * call.out[k].stride + i, out[k]);
  }

  void part(int64_t row, int64_t first, int64_t last) const {
    int64_t i = first;
    for (; i + kLanes <= last; i += kLanes) {
      vectors(row, i, [](const T* p) { return load(p); }, [](T* p, Vec v) { store(p, v); });
    }
    const int64_t left = last - i;
    if (left > 0)
      vectors(
          row, i, [left](const T* p) { return load_part(p, left); }, [left](T* p, Vec v) { store_part(p, v, left); });
  }

  void units(int64_t begin, int64_t end) const {
    const int64_t each = (call.cols + kElementwiseUnit - 1) / kElementwiseUnit;
    for (; begin < end; ++begin) {
      const int64_t first = begin % each * kElementwiseUnit, last = first + kElementwiseUnit;
      part(begin / each, first, last < call.cols ? last : call.cols);
    }
  }
};

template <class F>
void elementwise(const void* context, int64_t begin, int64_t end) {
  const auto& call = *static_cast<const ElementwiseCall*>(context);
  if (call.dtype == KW_FLOAT32) return ElementwiseRun<F, float>(call).units(begin, end);
  if (call.dtype == KW_FLOAT16) return ElementwiseRun<F, Half>(call).units(begin, end);
  return ElementwiseRun<F, BFloat16>(call).units(begin, end);
}

}  // namespace
}  // namespace kw::cpu::KW_ISA

// In no namespace.
#define KW_CPU_ELEMENTWISE(name, F)                                                                              \
  namespace kw::cpu::KW_ISA {                                                                                    \
  void name##_elements(const void* context, int64_t begin, int64_t end) { elementwise<F>(context, begin, end); } \
  }
