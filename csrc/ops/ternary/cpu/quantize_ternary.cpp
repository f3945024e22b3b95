// SPDX-License-Identifier: MIT
// Weights to ternary codes. Until the scale of all is known, rows' sums lie where codes will, as on a GPU.
#include <math.h>
#include <string.h>

#include "cpu/pages.h"
#include "cpu/pool.h"
#include "cpu/simd.h"
#include "ops/ternary/host/ternary.h"

namespace kw::cpu {

KW_CPU_RANGE(quantize_ternary_sums)
KW_CPU_RANGE(quantize_ternary_pack)

namespace KW_ISA {
namespace {

template <class T>
const T* row_of(const TernaryCodes& a, int64_t row) {
  return static_cast<const T*>(a.wide) + row * a.stride;
}

float scale_of(double sum, double count) {
  const double mean = count > 0 ? sum / count : 0;
  return mean < 1e-5 ? 1e-5f : static_cast<float>(mean);  // a NaN stays
}

template <class T>
void sums(const TernaryCodes& a, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row) {
    const T* from = row_of<T>(a, row);
    double sum = 0;
    for (int64_t k = 0; k < a.k;) {
      constexpr int64_t kRun = 1024;
      const int64_t last = a.k - k < kRun ? a.k : k + kRun;
      Vec part = zero();
      for (; k + kLanes <= last; k += kLanes) part = add(part, minus_size(load(from + k)));
      if (k < last) part = add(part, minus_size(load_part(from + k, last - k)));
      k = last;
      sum -= static_cast<double>(total(part));
    }
    if (a.scales != 1) {
      a.scale[row] = scale_of(sum, static_cast<double>(a.k));
    } else {
      const auto single = static_cast<float>(sum);
      memcpy(a.packed + row * 4, &single, 4);
    }
  }
}

// The codes of 16 rows of 128 of k, then each byte's four.
template <class T>
void pack(const TernaryCodes& a, int64_t group, int64_t block) {
  uint8_t code[KW_TERNARY_ROWS][KW_TERNARY_DEPTH];
  memset(code, 1, sizeof code);
  const int64_t k = block * KW_TERNARY_DEPTH, count = a.k - k < KW_TERNARY_DEPTH ? a.k - k : int64_t{KW_TERNARY_DEPTH};
  for (int64_t i = 0; i < KW_TERNARY_ROWS && group * KW_TERNARY_ROWS + i < a.n; ++i) {
    const int64_t row = group * KW_TERNARY_ROWS + i;
    const float once = 1.0f / a.scale[a.scales == 1 ? 0 : row];
    const T* from = row_of<T>(a, row) + k;
    alignas(64) float value[KW_TERNARY_DEPTH + kLanes];
    for (int64_t j = 0; j < count; j += kLanes) {
      store(value + j, mul(count - j < kLanes ? load_part(from + j, count - j) : load(from + j), all(once)));
    }
    for (int64_t j = 0; j < count; ++j) code[i][j] = value[j] > 0.5f ? 2 : value[j] < -0.5f ? 0 : 1;
  }
  uint8_t* to = a.packed + (group * ternary::blocks_of(a.k) + block) * KW_TERNARY_BLOCK;
  for (int at = 0; at < KW_TERNARY_BLOCK; ++at) {
    const int lane = at / 16, word = at / 4 % 4, row = lane / 4 + word % 2 * 8,
              first = word / 2 * 16 + lane % 4 * 4 + at % 4;
    unsigned byte = 0;
    for (int step = 0; step < KW_TERNARY_STEPS; ++step)
      byte |= static_cast<unsigned>(code[row][first + step * 32]) << (step * 2);
    to[at] = static_cast<uint8_t>(byte);
  }
}

template <class T>
void pack_groups(const TernaryCodes& a, int64_t begin, int64_t end) {
  for (; begin < end; ++begin) {
    for (int64_t block = 0; block < ternary::blocks_of(a.k); ++block) pack<T>(a, begin, block);
  }
}

}  // namespace

void quantize_ternary_sums(const void* context, int64_t begin, int64_t end) {
  const auto& a = *static_cast<const TernaryCodes*>(context);
  if (a.dtype == KW_FLOAT32) return sums<float>(a, begin, end);
  if (a.dtype == KW_FLOAT16) return sums<Half>(a, begin, end);
  return sums<BFloat16>(a, begin, end);
}

void quantize_ternary_pack(const void* context, int64_t begin, int64_t end) {
  const auto& a = *static_cast<const TernaryCodes*>(context);
  if (a.dtype == KW_FLOAT32) return pack_groups<float>(a, begin, end);
  if (a.dtype == KW_FLOAT16) return pack_groups<Half>(a, begin, end);
  return pack_groups<BFloat16>(a, begin, end);
}

}  // namespace KW_ISA

#if KW_CPU_BASELINE
kw_status quantize_ternary(const TernaryCodes& args) {
  constexpr int64_t kElements = 32768;
  const int64_t groups = ternary::groups_of(args.n), blocks = ternary::blocks_of(args.k);
  will_write(args.packed, groups * blocks * KW_TERNARY_BLOCK);
  const bool empty = args.n == 0 || args.k == 0;
  if (args.n > 0 && (!empty || args.scales != 1))
    parallel_for(args.n, 1 + kElements / (args.k + 1), picked_quantize_ternary_sums(), &args);
  if (args.scales == 1) {
    double sum = 0;
    for (int64_t row = 0; row < args.n && !empty; ++row) {
      float single;
      memcpy(&single, args.packed + row * 4, 4);
      sum += static_cast<double>(single);
    }
    args.scale[0] = KW_ISA::scale_of(sum, static_cast<double>(args.n) * static_cast<double>(args.k));
  }
  if (!empty) parallel_for(groups, 1 + kElements / (args.k * KW_TERNARY_ROWS), picked_quantize_ternary_pack(), &args);
  return KW_OK;
}
#endif

}  // namespace kw::cpu
