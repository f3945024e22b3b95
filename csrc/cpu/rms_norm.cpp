// SPDX-License-Identifier: MIT
// Two passes a row: the first only reads and sums the squares; the second reads again (from the nearest caches by
// then), and writes y and sum. So each element is written after its last use, at its own place, and the in-place forms
// need no buffer.
#include "../host/ops/rms_norm.h"

#include "isa.h"
#include "pool.h"
#include "simd.h"

namespace kw::cpu {

KW_CPU_RANGE(rms_norm_rows)

namespace KW_ISA {
namespace {

// Squares added in float32 before they go to a double: bounds the error of long rows, and costs nothing.
constexpr int64_t kBlock = 4096;

// What h is made of.
template <class T>
struct Plain {
  static constexpr bool kStoresSum = false;
  const T* x;

  void go_to(const RmsNorm& args, int64_t row) { x = static_cast<const T*>(args.x) + row * args.x_stride; }
  Vec at(int64_t i) const { return load(x + i); }
  Vec part(int64_t i, int64_t n) const { return load_part(x + i, n); }
};

template <class T>
struct Added {
  static constexpr bool kStoresSum = true;
  const T* x;
  const T* residual;

  void go_to(const RmsNorm& args, int64_t row) {
    x = static_cast<const T*>(args.x) + row * args.x_stride;
    residual = static_cast<const T*>(args.residual) + row * args.residual_stride;
  }
  Vec at(int64_t i) const { return add(load(x + i), load(residual + i)); }
  Vec part(int64_t i, int64_t n) const { return add(load_part(x + i, n), load_part(residual + i, n)); }
};

struct Unweighted {
  Vec at(int64_t, Vec v) const { return v; }
  Vec part(int64_t, int64_t, Vec v) const { return v; }
};

template <class W>
struct Weighted {
  const W* weight;

  Vec at(int64_t i, Vec v) const { return mul(v, load(weight + i)); }
  Vec part(int64_t i, int64_t n, Vec v) const { return mul(v, load_part(weight + i, n)); }
};

template <class In>
float block_squares(const In& in, int64_t i, int64_t end) {
  Vec s0 = zero(), s1 = zero(), s2 = zero(), s3 = zero();
  for (; i + 4 * kLanes <= end; i += 4 * kLanes) {
    const Vec h0 = in.at(i), h1 = in.at(i + kLanes), h2 = in.at(i + 2 * kLanes), h3 = in.at(i + 3 * kLanes);
    s0 = mul_add(h0, h0, s0);
    s1 = mul_add(h1, h1, s1);
    s2 = mul_add(h2, h2, s2);
    s3 = mul_add(h3, h3, s3);
  }
  for (; i + kLanes <= end; i += kLanes) {
    const Vec h = in.at(i);
    s0 = mul_add(h, h, s0);
  }
  if (i < end) {
    const Vec h = in.part(i, end - i);
    s1 = mul_add(h, h, s1);
  }
  return total(add(add(s0, s1), add(s2, s3)));
}

template <class In>
double squares(const In& in, int64_t cols) {
  double sum = 0;
  for (int64_t i = 0; i < cols; i += kBlock) {
    sum += static_cast<double>(block_squares(in, i, i + kBlock < cols ? i + kBlock : cols));
  }
  return sum;
}

// The second pass of one row. Its stores are the usual ones: stores that bypass the caches made results larger than the
// caches a fifth faster in memory that was mapped before, and a tenth slower in the fresh memory that callers have as a
// rule.
template <class T, class In, class Scale>
struct Writer {
  In in;
  Scale scale;
  T* y;
  T* sum;
  Vec rstd;

  void full(int64_t i) const {
    const Vec h = in.at(i);
    if constexpr (In::kStoresSum) store(sum + i, h);
    store(y + i, scale.at(i, mul(h, rstd)));
  }

  void part(int64_t i, int64_t n) const {
    const Vec h = in.part(i, n);
    if constexpr (In::kStoresSum) store_part(sum + i, h, n);
    store_part(y + i, scale.part(i, n, mul(h, rstd)), n);
  }

  void run(int64_t cols) const {
    int64_t i = 0;
    for (; i + kLanes <= cols; i += kLanes) full(i);
    if (i < cols) part(i, cols - i);
  }
};

template <class T, class In, class Scale>
void run_rows(const RmsNorm& args, In in, Scale scale, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row) {
    in.go_to(args, row);
    const double mean = squares(in, args.cols) / static_cast<double>(args.cols);
    const auto rstd = static_cast<float>(1.0 / root(mean + static_cast<double>(args.eps)));
    if (args.rstd) args.rstd[row] = rstd;
    T* const y = static_cast<T*>(args.y) + row * args.y_stride;
    T* const sum = In::kStoresSum ? static_cast<T*>(args.sum) + row * args.sum_stride : nullptr;
    Writer<T, In, Scale>{in, scale, y, sum, all(rstd)}.run(args.cols);
  }
}

template <class T, class Scale>
void with_input(const RmsNorm& args, Scale scale, int64_t begin, int64_t end) {
  if (args.residual) return run_rows<T>(args, Added<T>{}, scale, begin, end);
  return run_rows<T>(args, Plain<T>{}, scale, begin, end);
}

template <class T>
void with_weight(const RmsNorm& args, int64_t begin, int64_t end) {
  if (!args.weight) return with_input<T>(args, Unweighted{}, begin, end);
  if (args.weight_dtype == args.dtype) {
    return with_input<T>(args, Weighted<T>{static_cast<const T*>(args.weight)}, begin, end);
  }
  return with_input<T>(args, Weighted<float>{static_cast<const float*>(args.weight)}, begin, end);
}

}  // namespace

void rms_norm_rows(const void* context, int64_t begin, int64_t end) {
  const RmsNorm& args = *static_cast<const RmsNorm*>(context);
  if (args.dtype == KW_FLOAT32) return with_weight<float>(args, begin, end);
  if (args.dtype == KW_FLOAT16) return with_weight<Half>(args, begin, end);
  return with_weight<BFloat16>(args, begin, end);
}

}  // namespace KW_ISA

#if KW_CPU_BASELINE
kw_status rms_norm(const RmsNorm& args) {
  // A part of fewer elements takes this thread less than the 5 to 10 us in which another wakes up.
  constexpr int64_t kElements = 65536;
  parallel_for(args.rows, 1 + kElements / args.cols, picked_rms_norm_rows(), &args);
  return KW_OK;
}
#endif

}  // namespace kw::cpu
