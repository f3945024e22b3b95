// SPDX-License-Identifier: MIT
// What the products with 4-bit weights share: arguments as their kernels get them, sizes that are refused.
#pragma once

#include "core/checks.h"
#include "ops/four_bit/host/launch.h"
#include "ops/four_bit/host/matmul_plan.h"

namespace kw::matmul_4bit_plan {

inline KwMatmul4bitParams params_of(const Matmul4bit& a, float factor) {
  const int64_t size = size_of(a.dtype);
  KwMatmul4bitParams p{};
  p.y = static_cast<char*>(a.y);
  p.x = static_cast<const char*>(a.x);
  p.packed = bytes_of(a.packed);
  p.bias = static_cast<const char*>(a.bias);
  p.scales = scales_of(a.scales, a.blocksize);
  p.y_pitch = a.y_stride * size;
  p.x_pitch = a.x_stride * size;
  p.m = a.m, p.n = a.n, p.k = a.k;
  for (int i = 0; i < 16; ++i) p.values[i] = kCodeValues4bit[a.quant_type][i] * factor;
  p.by = 1.0f / factor;
  return p;
}

inline KwMatmul4bitParams chunked_params(const Matmul4bit& a) {
  KwMatmul4bitParams p = params_of(a, kFactors[a.dtype][a.quant_type]);
  p.row_chunks = static_cast<unsigned>(a.k / kChunk);
  p.last_chunk = static_cast<unsigned>(a.n * (a.k / kChunk) - 1);
  return p;
}

inline kw_status check_sizes(const char* name, int64_t m, int64_t n, int64_t k) {
  KW_TRY(check_size(name, "m", m));
  KW_TRY(check_size(name, "n", n));
  KW_TRY(check_size(name, "k", k));
  const int64_t widest = n > k ? n : k;
  if ((k > 0 && n > kMaxElements / k) || (widest > 0 && m > kMaxElements / widest))
    return fail(KW_ERROR_INVALID_ARGUMENT,
                "%s: m, n and k are %lld, %lld and %lld; no memory holds such matrices. Look at how they were computed",
                name, (long long)m, (long long)n, (long long)k);
  return KW_OK;
}

}  // namespace kw::matmul_4bit_plan
