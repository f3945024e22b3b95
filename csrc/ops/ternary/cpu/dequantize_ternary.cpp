// SPDX-License-Identifier: MIT
// What ternary codes stand for.
#include <string.h>

#include "cpu/pages.h"
#include "cpu/pool.h"
#include "cpu/simd.h"
#include "ops/ternary/host/ternary.h"

namespace kw::cpu {

KW_CPU_RANGE(dequantize_ternary_groups)

namespace KW_ISA {
namespace {

template <class T>
void unpack(const TernaryCodes& a, int64_t group, int64_t block) {
  alignas(64) float value[KW_TERNARY_ROWS][KW_TERNARY_DEPTH];
  const uint8_t* from = a.packed + (group * ternary::blocks_of(a.k) + block) * KW_TERNARY_BLOCK;
  for (int at = 0; at < KW_TERNARY_BLOCK; ++at) {
    const int lane = at / 16, word = at / 4 % 4, row = lane / 4 + word % 2 * 8,
              first = word / 2 * 16 + lane % 4 * 4 + at % 4;
    for (int step = 0; step < KW_TERNARY_STEPS; ++step)
      value[row][first + step * 32] = static_cast<float>((from[at] >> (step * 2) & 3) - 1);
  }
  const int64_t k = block * KW_TERNARY_DEPTH, left = a.k - k;
  const int64_t count = left < KW_TERNARY_DEPTH ? left : int64_t{KW_TERNARY_DEPTH};
  for (int64_t i = 0; i < KW_TERNARY_ROWS && group * KW_TERNARY_ROWS + i < a.n; ++i) {
    const int64_t row = group * KW_TERNARY_ROWS + i;
    const Vec scale = all(a.scale[a.scales == 1 ? 0 : row]);
    T* to = static_cast<T*>(a.wide) + row * a.stride + k;
    for (int64_t j = 0; j < count; j += kLanes) {
      const Vec scaled = mul(load(value[i] + j), scale);
      count - j < kLanes ? store_part(to + j, scaled, count - j) : store(to + j, scaled);
    }
  }
}

template <class T>
void unpack_groups(const TernaryCodes& a, int64_t begin, int64_t end) {
  for (; begin < end; ++begin) {
    for (int64_t block = 0; block < ternary::blocks_of(a.k); ++block) unpack<T>(a, begin, block);
  }
}

}  // namespace

void dequantize_ternary_groups(const void* context, int64_t begin, int64_t end) {
  const auto& a = *static_cast<const TernaryCodes*>(context);
  if (a.dtype == KW_FLOAT32) return unpack_groups<float>(a, begin, end);
  if (a.dtype == KW_FLOAT16) return unpack_groups<Half>(a, begin, end);
  return unpack_groups<BFloat16>(a, begin, end);
}

}  // namespace KW_ISA

#if KW_CPU_BASELINE
kw_status dequantize_ternary(const TernaryCodes& args) {
  constexpr int64_t kElements = 32768;
  const int64_t size = args.dtype == KW_FLOAT32 ? 4 : 2;
  will_write(args.wide, args.n, args.stride, args.k * size, size);
  parallel_for(ternary::groups_of(args.n), 1 + kElements / (args.k * KW_TERNARY_ROWS),
               picked_dequantize_ternary_groups(), &args);
  return KW_OK;
}
#endif

}  // namespace kw::cpu
