// SPDX-License-Identifier: MIT
// What products of int8 and of e4m3 have in common before they are launched: checks, tensor maps, where results go.
#pragma once

#include "core/checks.h"
#include "core/tensor_map.h"
#include "ops/int8/host/matmul_plan.h"

namespace kw::matmul_int8_plan {

static_assert(int{KW_MATMUL_FLOAT32} == KW_FLOAT32 && int{KW_MATMUL_FLOAT16} == KW_FLOAT16 &&
                  int{KW_MATMUL_BFLOAT16} == KW_BFLOAT16 && int{KW_MATMUL_INT32} == KW_INT32,
              "kernels number element types as the ABI does");

inline kw_status check_bias_type(const char* name, const ByteProduct& a) {
  if (a.bias != nullptr && a.bias_dtype != KW_FLOAT32 && a.bias_dtype != KW_FLOAT16 && a.bias_dtype != KW_BFLOAT16)
    return fail(KW_ERROR_INVALID_ARGUMENT,
                "%s: bias_dtype is %d; it must be KW_FLOAT32 (0), KW_FLOAT16 (1) or KW_BFLOAT16 (2)", name,
                a.bias_dtype);
  return KW_OK;
}

inline kw_status check_sizes(const char* name, const ByteProduct& a) {
  KW_TRY(check_size(name, "m", a.m));
  KW_TRY(check_size(name, "n", a.n));
  KW_TRY(check_size(name, "k", a.k));
  const int64_t widest = a.n > a.k ? a.n : a.k;
  if ((a.k > 0 && a.n > kMaxElements / a.k) || (widest > 0 && a.m > kMaxElements / widest))
    return fail(KW_ERROR_INVALID_ARGUMENT,
                "%s: m, n and k are %lld, %lld and %lld; no memory holds such matrices. Look at how they were computed",
                name, (long long)a.m, (long long)a.n, (long long)a.k);
  return KW_OK;
}

inline kw_status check_pointers(const char* name, const ByteProduct& a) {
  if (a.m == 0 || a.n == 0) return KW_OK;
  KW_TRY(check_pointer(name, "y", a.y, size_of(a.dtype)));
  KW_TRY(check_apart(name, "y", a.y_stride, a.m, a.n));
  if (a.x_scale != nullptr) KW_TRY(check_pointer(name, "x_scale", a.x_scale, 4));
  if (a.weight_scale != nullptr) KW_TRY(check_pointer(name, "weight_scale", a.weight_scale, 4));
  if (a.bias != nullptr) KW_TRY(check_pointer(name, "bias", a.bias, size_of(a.bias_dtype)));
  if (a.k == 0) return KW_OK;
  KW_TRY(check_pointer(name, "x", a.x, 1));
  return check_pointer(name, "weight", a.weight, 1);
}

inline KwMatmulResult result_of(const ByteProduct& a) {
  const int64_t size = size_of(a.dtype);
  KwMatmulResult to{};
  to.y = static_cast<char*>(a.y);
  to.x_scale = reinterpret_cast<const char*>(a.x_scale);
  to.weight_scale = reinterpret_cast<const char*>(a.weight_scale);
  to.bias = static_cast<const char*>(a.bias);
  to.y_pitch = a.y_stride * size;
  to.m = a.m, to.n = a.n;
  to.factor = a.factor;
  to.dtype = a.dtype, to.bias_dtype = a.bias_dtype;
  to.vectors = a.n % 4 == 0 && reinterpret_cast<uintptr_t>(a.y) % static_cast<uintptr_t>(4 * size) == 0 &&
               (a.m == 1 || a.y_stride % 4 == 0);
  return to;
}

// A factor's boxes: all of the rows that it has, 128 of k.
inline kw_status encode_factor(const Context& context, const void* from, int64_t rows, int64_t stride, int64_t k,
                               int64_t box, void* map) {
  const int64_t pitch = rows > 1 ? stride : ratio_up(k, kAlignment) * kAlignment;
  return encode(context, matrix_map(from, KW_INT8, rows, k, pitch, box, KW_MATMUL_DEPTH, Swizzle::k128), map);
}

// The product of some rows of x.
inline ByteProduct rows_of_product(const ByteProduct& a, int64_t first, int64_t count) {
  ByteProduct part = a;
  part.m = count;
  part.x = a.x + first * a.x_stride;
  part.x_scale = a.x_scale == nullptr ? nullptr : a.x_scale + first;
  part.y = static_cast<char*>(a.y) + first * a.y_stride * size_of(a.dtype);
  return part;
}

// The parameters of a kernel by warpgroups, all but what its kind has besides.
template <class Params>
kw_status encode_product(const Context& context, const ByteProduct& a, const Plan& plan, Params* p) {
  KW_TRY(encode_factor(context, a.x, a.m, a.x_stride, a.k, KW_MATMUL_ROWS, &p->x));
  KW_TRY(encode_factor(context, a.weight, a.n, a.weight_stride, a.k, plan.width / plan.cluster, &p->weight));
  p->to = result_of(a);
  p->steps = static_cast<unsigned>(ratio_up(a.k, KW_MATMUL_DEPTH));
  p->rows = static_cast<unsigned>(plan.rows);
  p->columns = static_cast<unsigned>(plan.columns);
  p->group = kGroup;
  return KW_OK;
}

inline Launch launch_of(const Plan& plan) {
  Launch how{static_cast<uint32_t>(plan.grid), KW_MATMUL_THREADS};
  how.shared = KW_MATMUL_SHARED;
  how.cluster = static_cast<uint32_t>(plan.cluster);
  how.overlap = true;
  return how;
}

}  // namespace kw::matmul_int8_plan
