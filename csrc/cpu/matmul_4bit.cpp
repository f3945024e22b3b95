// SPDX-License-Identifier: MIT
// Rows of the weight are taken apart among the threads; each is decoded as it is read.
#include "four_bit.h"
#include "isa.h"
#include "pool.h"
#include "simd.h"

namespace kw::cpu {

KW_CPU_RANGE(matmul_4bit_rows)

namespace KW_ISA {
namespace {

template <class T>
float one(const T* p) {
  float lanes[kLanes];
  store(lanes, load_part(p, 1));
  return lanes[0];
}

// The products within one block are summed first and scaled once.
template <class T>
float dot(const Matmul4bit& a, int64_t row, const T* x) {
  const float* values = kCodeValues[a.quant_type];
  const int64_t first = row * a.k;
  float total = 0.0f;
  for (int64_t i = 0; i < a.k;) {
    const int64_t block = (first + i) / a.blocksize, rest = (block + 1) * a.blocksize - first;
    const int64_t end = rest < a.k ? rest : a.k;
    float sum = 0.0f;
    for (; i < end; ++i) sum += values[code_of(a.packed, first + i)] * one(x + i);
    total += sum * scale_of(a.scales, block);
  }
  return total;
}

template <class T>
void run(const Matmul4bit& a, int64_t row, int64_t end) {
  const auto* x = static_cast<const T*>(a.x);
  auto* y = static_cast<T*>(a.y);
  const auto* bias = static_cast<const T*>(a.bias);
  for (; row < end; ++row) {
    for (int64_t m = 0; m < a.m; ++m) {
      const float sum = dot(a, row, x + m * a.x_stride) + (bias ? one(bias + row) : 0.0f);
      store_part(y + m * a.y_stride + row, all(sum), 1);
    }
  }
}

}  // namespace

void matmul_4bit_rows(const void* context, int64_t begin, int64_t end) {
  const Matmul4bit& a = *static_cast<const Matmul4bit*>(context);
  if (a.dtype == KW_FLOAT32) return run<float>(a, begin, end);
  if (a.dtype == KW_FLOAT16) return run<Half>(a, begin, end);
  return run<BFloat16>(a, begin, end);
}

}  // namespace KW_ISA

#if KW_CPU_BASELINE
int64_t matmul_4bit_workspace(int64_t, int64_t) { return 0; }

kw_status matmul_4bit(const Matmul4bit& args) {
  const int64_t work = args.m * (args.k + 1);
  parallel_for(args.n, work < 16384 ? 1 + 16384 / work : 1, picked_matmul_4bit_rows(), &args);
  return KW_OK;
}
#endif

}  // namespace kw::cpu
