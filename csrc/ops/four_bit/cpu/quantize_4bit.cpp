// SPDX-License-Identifier: MIT
// Blocks of 4-bit codes, and the 8-bit codes of their scales. A scaled value is element * (1 / scale), as on a GPU.
#include "cpu/isa.h"
#include "cpu/pages.h"
#include "cpu/pool.h"
#include "cpu/simd.h"
#include "ops/four_bit/cpu/four_bit.h"

namespace kw::cpu {

KW_CPU_RANGE(quantize_4bit_pieces)
KW_CPU_RANGE(quantize_4bit_scales)

namespace KW_ISA {
namespace {

constexpr float kNf4Bounds[] = {KW_NF4_BOUNDS};
constexpr float kFp4Bounds[] = {KW_FP4_BOUNDS};
constexpr int kFp4Codes[] = {KW_FP4_CODES};
constexpr int kStep = 32;  // elements whose codes are found together: of no block less than one

// The code at a place of kFp4Codes, without a look-up, so that compilers make vectors of it.
constexpr int fp4_code(int place) { return place ^ (place & 2) << 1; }

constexpr bool fp4_codes_agree() {
  for (int i = 0; i < 8; ++i) {
    if (fp4_code(i) != kFp4Codes[i]) return false;
  }
  return true;
}
static_assert(fp4_codes_agree(), "fp4_code() must give what values.h lists");

// NaN exceeds no bound. The loops over elements are the inner ones: each becomes a few vectors.
void nf4_codes(const float (&s)[kStep], int32_t (&codes)[kStep]) {
  for (int32_t& code : codes) code = 0;
  for (const float bound : kNf4Bounds) {
    for (int i = 0; i < kStep; ++i) codes[i] += s[i] > bound;
  }
}

void fp4_codes(const float (&s)[kStep], int32_t (&codes)[kStep]) {
  for (int32_t& code : codes) code = 0;
  for (const float bound : kFp4Bounds) {
    for (int i = 0; i < kStep; ++i) codes[i] += __builtin_fabsf(s[i]) > bound;
  }
  for (int i = 0; i < kStep; ++i) codes[i] = fp4_code(codes[i]) | (s[i] <= -0x1p-126f ? 8 : 0);
}

// The largest size among the elements; NaN if there is one: as whole numbers, NaNs exceed all others.
float largest(const float* x, int64_t count) {
  uint32_t most = 0;
  for (int64_t i = 0; i < count; ++i) {
    uint32_t size;
    memcpy(&size, x + i, sizeof size);
    size &= 0x7fffffffu;
    most = size > most ? size : most;
  }
  float result;
  memcpy(&result, &most, sizeof result);
  return result;
}

template <class T>
void widen(const T* x, float* wide, int64_t count) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) store(wide + i, load(x + i));
  if (i < count) store_part(wide + i, load_part(x + i, count - i), count - i);
}

// Of `count` elements, at most kStep.
void pack(const float* x, int64_t count, float factor, int quant_type, uint8_t* packed) {
  float s[kStep] = {};
  int32_t codes[kStep];
  uint8_t bytes[kStep / 2];
  for (int64_t i = 0; i < count; ++i) s[i] = x[i] * factor;
  quant_type == KW_NF4 ? nf4_codes(s, codes) : fp4_codes(s, codes);
  for (int i = 0; i < kStep / 2; ++i) bytes[i] = static_cast<uint8_t>(codes[2 * i] << 4 | codes[2 * i + 1]);
  memcpy(packed, bytes, static_cast<size_t>(count + 1) / 2);
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
    uint8_t* const packed = a.packed + first / 2;
    int64_t i = 0;
    for (; i + kStep <= count; i += kStep) pack(wide + i, kStep, factor, a.quant_type, packed + i / 2);
    if (i < count) pack(wide + i, count - i, factor, a.quant_type, packed + i / 2);
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
  will_write(args.packed, (args.count + 1) / 2);
  parallel_for(pieces(args.count), 4, picked_quantize_4bit_pieces(), &args);
  return KW_OK;
}

kw_status quantize_4bit_absmax(const QuantizeAbsmax4bit& args) {
  parallel_for((args.count + kScalesABlock - 1) / kScalesABlock, 4, picked_quantize_4bit_scales(), &args);
  return KW_OK;
}
#endif

}  // namespace kw::cpu
