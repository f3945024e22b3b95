// SPDX-License-Identifier: MIT
// Each code's value times its block's scale.
#include "four_bit.h"
#include "isa.h"
#include "pool.h"
#include "simd.h"

namespace kw::cpu {

KW_CPU_RANGE(dequantize_4bit_pieces)

namespace KW_ISA {
namespace {

template <class T>
void run(const Dequantize4bit& a, int64_t element, int64_t stop) {
  T* y = static_cast<T*>(a.y);
  const float* values = kCodeValues[a.quant_type];
  while (element < stop) {
    const Vec scale = all(scale_of(a.scales, element / a.blocksize));
    const int64_t end = element + a.blocksize < stop ? element + a.blocksize : stop;
    for (; element < end; element += kLanes) {
      const int64_t left = end - element;
      float lanes[kLanes] = {};
      for (int i = 0; i < kLanes && i < left; ++i) lanes[i] = values[code_of(a.packed, element + i)];
      const Vec result = mul(load(lanes), scale);
      if (left >= kLanes) {
        store(y + element, result);
      } else {
        store_part(y + element, result, left);
      }
    }
    element = end;
  }
}

}  // namespace

void dequantize_4bit_pieces(const void* context, int64_t begin, int64_t end) {
  const Dequantize4bit& a = *static_cast<const Dequantize4bit*>(context);
  const int64_t first = begin * kPiece, stop = end * kPiece < a.count ? end * kPiece : a.count;
  if (a.dtype == KW_FLOAT32) return run<float>(a, first, stop);
  if (a.dtype == KW_FLOAT16) return run<Half>(a, first, stop);
  return run<BFloat16>(a, first, stop);
}

}  // namespace KW_ISA

#if KW_CPU_BASELINE
kw_status dequantize_4bit(const Dequantize4bit& args) {
  parallel_for(pieces(args.count), 4, picked_dequantize_4bit_pieces(), &args);
  return KW_OK;
}
#endif

}  // namespace kw::cpu
