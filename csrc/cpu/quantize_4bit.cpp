// SPDX-License-Identifier: MIT
// Blocks of 4-bit codes, and the 8-bit codes of their scales. A scaled value is element * (1 / scale), as on a GPU.
#include "four_bit.h"
#include "isa.h"
#include "pool.h"
#include "simd.h"

namespace kw::cpu {

KW_CPU_RANGE(quantize_4bit_pieces)
KW_CPU_RANGE(quantize_4bit_scales)

namespace KW_ISA {
namespace {

constexpr float kNf4Bounds[] = {KW_NF4_BOUNDS};
constexpr float kFp4Bounds[] = {KW_FP4_BOUNDS};
constexpr int kFp4Codes[] = {KW_FP4_CODES};

// NaN exceeds no bound.
int nf4_code(float s) {
  int code = 0;
  for (const float bound : kNf4Bounds) code += s > bound;
  return code;
}

int fp4_code(float s) {
  int place = 0;
  for (const float bound : kFp4Bounds) place += __builtin_fabsf(s) > bound;
  return kFp4Codes[place] | (s <= -0x1p-126f ? 8 : 0);
}

// The largest size among the elements; NaN if there is one.
float largest(const float* x, int64_t count) {
  float most = 0.0f;
  for (int64_t i = 0; i < count; ++i) {
    const float size = __builtin_fabsf(x[i]);
    most = most >= size ? most : most != most ? most : size;
  }
  return most;
}

template <class T>
void widen(const T* x, float* wide, int64_t count) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) store(wide + i, load(x + i));
  if (i < count) store_part(wide + i, load_part(x + i, count - i), count - i);
}

// `first` is even: a piece or a block begins there.
template <class T>
void run(const Quantize4bit& a, int64_t first, int64_t stop) {
  for (; first < stop; first += a.blocksize) {
    const int64_t count = stop - first < a.blocksize ? stop - first : a.blocksize;
    float wide[kPiece];
    widen(static_cast<const T*>(a.x) + first, wide, count);
    const float scale = largest(wide, count), factor = 1.0f / scale;
    a.absmax[first / a.blocksize] = scale;
    const auto code = [&](int64_t i) {
      const float s = i < count ? wide[i] * factor : 0.0f;
      return a.quant_type == KW_NF4 ? nf4_code(s) : fp4_code(s);
    };
    for (int64_t i = 0; i < count; i += 2) a.packed[(first + i) / 2] = static_cast<uint8_t>(code(i) << 4 | code(i + 1));
  }
}

// The place of the nearest value, of two as near the even one; 0 for NaN.
int nearest_place(const float* map, float s) {
  int low = 0, high = 255;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    (s > map[middle] ? low : high) = middle;
  }
  const float middle = (map[low] + map[high]) * 0.5f;
  if (s > middle) return high;
  return s == middle && low % 2 ? high : low;
}

}  // namespace

void quantize_4bit_pieces(const void* context, int64_t begin, int64_t end) {
  const Quantize4bit& a = *static_cast<const Quantize4bit*>(context);
  const int64_t first = begin * kPiece, stop = end * kPiece < a.count ? end * kPiece : a.count;
  if (a.dtype == KW_FLOAT32) return run<float>(a, first, stop);
  if (a.dtype == KW_FLOAT16) return run<Half>(a, first, stop);
  return run<BFloat16>(a, first, stop);
}

void quantize_4bit_scales(const void* context, int64_t begin, int64_t end) {
  const QuantizeAbsmax4bit& a = *static_cast<const QuantizeAbsmax4bit*>(context);
  for (; begin < end; ++begin) {
    const int64_t first = begin * kScalesABlock, left = a.count - first;
    const int64_t count = left < kScalesABlock ? left : kScalesABlock;
    float moved[kScalesABlock];
    for (int64_t i = 0; i < count; ++i) moved[i] = a.absmax[first + i] - *a.offset;
    const float scale = largest(moved, count), factor = 1.0f / scale;
    a.absmax2[begin] = scale;
    for (int64_t i = 0; i < count; ++i)
      a.codes[first + i] = static_cast<uint8_t>(nearest_place(a.map, moved[i] * factor));
  }
}

}  // namespace KW_ISA

#if KW_CPU_BASELINE
kw_status quantize_4bit(const Quantize4bit& args) {
  parallel_for(pieces(args.count), 1, picked_quantize_4bit_pieces(), &args);
  return KW_OK;
}

kw_status quantize_4bit_absmax(const QuantizeAbsmax4bit& args) {
  parallel_for((args.count + kScalesABlock - 1) / kScalesABlock, 4, picked_quantize_4bit_scales(), &args);
  return KW_OK;
}
#endif

}  // namespace kw::cpu
