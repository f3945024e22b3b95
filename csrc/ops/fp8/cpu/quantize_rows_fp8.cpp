// SPDX-License-Identifier: MIT
// Rows into e4m3 on the CPU: a row at a time, by blocks of float32 that stay in the first cache.
#include "ops/fp8/host/quantize_rows_fp8.h"
#include "cpu/pages.h"
#include "cpu/pool.h"
#include "cpu/simd.h"
#include "ops/fp8/cpu/e4m3.h"

namespace kw::cpu {

KW_CPU_RANGE(quantize_rows_fp8_rows)

namespace KW_ISA {
namespace {

constexpr int64_t kBlock = 1024;  // elements

template <class T>
void widen(const T* from, float* to, int64_t count) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) store(to + i, load(from + i));
  if (i < count) store_part(to + i, load_part(from + i, count - i), count - i);
}

// As whole numbers they compare as sizes do, and a NaN is larger than all.
uint32_t largest(const float* x, int64_t count, uint32_t most) {
  for (int64_t i = 0; i < count; ++i) {
    uint32_t size;
    memcpy(&size, x + i, sizeof size);
    size &= 0x7fffffffu;
    most = size > most ? size : most;
  }
  return most;
}

float scale_of(uint32_t absmax_bits) {
  float absmax;
  memcpy(&absmax, &absmax_bits, sizeof absmax);
  const float scale = absmax / 448.0f;
  return scale < 1.1754944e-38f ? 1.0f : scale;
}

template <class T>
void quantize_row(const QuantizeRowsFp8& a, int64_t row) {
  const T* const x = static_cast<const T*>(a.x) + row * a.x_stride;
  uint8_t* const codes = a.codes + row * a.codes_stride;
  float wide[kBlock];
  uint32_t most = 0;
  for (int64_t at = 0; at < a.cols; at += kBlock) {
    const int64_t count = a.cols - at < kBlock ? a.cols - at : kBlock;
    widen(x + at, wide, count);
    most = largest(wide, count, most);
  }
  const float scale = scale_of(most);
  a.scale[row] = scale;
  for (int64_t at = 0; at < a.cols; at += kBlock) {
    const int64_t count = a.cols - at < kBlock ? a.cols - at : kBlock;
    if (a.cols > kBlock) widen(x + at, wide, count);
    for (int64_t i = 0; i < count; ++i) codes[at + i] = e4m3_of(wide[i] / scale);
  }
}

}  // namespace

void quantize_rows_fp8_rows(const void* context, int64_t begin, int64_t end) {
  const auto& a = *static_cast<const QuantizeRowsFp8*>(context);
  for (; begin < end; ++begin) {
    if (a.dtype == KW_FLOAT32) {
      quantize_row<float>(a, begin);
    } else if (a.dtype == KW_FLOAT16) {
      quantize_row<Half>(a, begin);
    } else {
      quantize_row<BFloat16>(a, begin);
    }
  }
}

}  // namespace KW_ISA

#if KW_CPU_BASELINE
kw_status quantize_rows_fp8(const QuantizeRowsFp8& args) {
  constexpr int64_t kElements = 16384;  // fewer take this thread less than another takes to wake up
  will_write(args.codes, args.rows, args.codes_stride, args.cols, 1);
  parallel_for(args.rows, 1 + kElements / (args.cols + 1), picked_quantize_rows_fp8_rows(), &args);
  return KW_OK;
}
#endif

}  // namespace kw::cpu
