// SPDX-License-Identifier: MIT
// Calls of this family's functions after their checks, for the CPU and the GPU alike, and what they refuse in common.
#pragma once

#include "core/checks.h"
#include "ops/ternary/geometry.h"

namespace kw {

struct MatmulTernary {
  void* y;
  const int8_t* x;
  const uint8_t* packed;
  const float *absmax, *scale;
  const void* bias;
  int64_t y_stride, x_stride;  // elements
  int64_t scales, m, n, k;
  int32_t dtype;
};

struct LinearTernary {
  MatmulTernary product;  // without x and absmax, which come of these
  const void *x, *weight, *residual;
  int64_t x_stride, residual_stride;  // elements
  int32_t weight_dtype;
  float clamp, eps;
};

struct TernaryCodes {
  uint8_t* packed;
  float* scale;
  void* wide;      // the weight, or what it is made of
  int64_t stride;  // elements
  int64_t scales, n, k;
  int32_t dtype;
};

namespace cpu {
kw_status matmul_ternary(const MatmulTernary& args);
kw_status linear_ternary(const LinearTernary& args);
kw_status ternary_product(const MatmulTernary& args);  // both of them
kw_status quantize_ternary(const TernaryCodes& args);
kw_status dequantize_ternary(const TernaryCodes& args);
}  // namespace cpu

namespace ternary {

constexpr int64_t groups_of(int64_t n) { return ratio_up(n, KW_TERNARY_ROWS); }
constexpr int64_t blocks_of(int64_t k) { return ratio_up(k, KW_TERNARY_DEPTH); }

constexpr int64_t kMostDeep = int64_t{1} << 24;  // of which a sum of bytes fits into 32 bits

inline kw_status check_weight(const char* name, int64_t n, int64_t k) {
  KW_TRY(check_size(name, "n", n));
  KW_TRY(check_size(name, "k", k));
  if (k > kMostDeep || (k > 0 && n > kMaxElements / (k + KW_TERNARY_DEPTH)))
    return fail(KW_ERROR_INVALID_ARGUMENT,
                "%s: n and k are %lld and %lld; k is at most %lld, and n * k must fit into memory", name, (long long)n,
                (long long)k, (long long)kMostDeep);
  return KW_OK;
}

inline kw_status check_codes(const char* name, const void* packed, const float* scale, int64_t scales, int64_t n) {
  if (scales != 1 && scales != n)
    return fail(KW_ERROR_INVALID_ARGUMENT, "%s: scales is %lld; it must be 1, or n, which is %lld", name,
                (long long)scales, (long long)n);
  KW_TRY(check_pointer(name, "packed", packed, 16));
  return scale == nullptr ? KW_OK : check_pointer(name, "scale", scale, 4);
}

// Of a product, but for its rows of x, elements of so many bytes.
inline kw_status check_product(const char* name, int32_t device, const MatmulTernary& a, const void* x,
                               unsigned x_size) {
  KW_TRY(check_device(name, device));
  KW_TRY(check_weight(name, a.n, a.k));
  KW_TRY(check_size(name, "m", a.m));
  const int64_t widest = a.n > a.k ? a.n : a.k;
  if (widest > 0 && a.m > kMaxElements / widest)
    return fail(KW_ERROR_INVALID_ARGUMENT, "%s: m is %lld; no memory holds so many rows", name, (long long)a.m);
  if (a.m == 0 || a.n == 0) return KW_OK;
  const unsigned size = a.dtype == KW_FLOAT16 || a.dtype == KW_BFLOAT16 ? 2 : 4;
  KW_TRY(check_pointer(name, "y", a.y, size));
  KW_TRY(check_apart(name, "y", a.y_stride, a.m, a.n));
  if (a.bias != nullptr) KW_TRY(check_pointer(name, "bias", a.bias, size));
  KW_TRY(check_codes(name, a.k > 0 ? a.packed : reinterpret_cast<const uint8_t*>(16), a.scale, a.scales, a.n));
  return a.k == 0 ? KW_OK : check_pointer(name, "x", x, x_size);
}

// What a kernel counts in 32 bits.
inline kw_status check_counts(const char* name, int64_t m, int64_t n, int64_t k) {
  constexpr int64_t kMost = (int64_t{1} << 31) - 256;
  if (m <= kMost && n <= kMost && groups_of(n) * blocks_of(k) <= kMost) return KW_OK;
  return fail(
      KW_ERROR_UNSUPPORTED,
      "%s: m, n and k are %lld, %lld and %lld; a GPU is given at most %lld rows, and as many blocks of a weight", name,
      (long long)m, (long long)n, (long long)k, (long long)kMost);
}

}  // namespace ternary
}  // namespace kw
