// SPDX-License-Identifier: MIT
// Two passes a row: the first only reads and finds mean and variance; the second reads again (from the nearest caches
// by then), and writes y and sum. So each element is written after its last use, at its own place, and the in-place
// forms need no buffer.
#include "norm_affine.h"
#include "norm_backward.h"
#include "pool.h"

namespace kw::cpu {

KW_CPU_RANGE(layer_norm_rows)
KW_CPU_RANGE(layer_norm_backward_chunks)
KW_CPU_RANGE(layer_norm_backward_columns)

namespace KW_ISA {
namespace {

// The second pass of one row. Its stores are the usual ones: stores that bypass the caches made results larger than the
// caches a fifth faster in memory that was mapped before, and a tenth slower in the fresh memory that callers have as a
// rule.
template <class T, class In, class Scale>
struct Writer {
  In in;
  Scale scale;
  T* y;
  T* sum;
  Vec minus_estimate, rstd, shift;

  Vec unit(Vec h) const { return mul_add(add(h, minus_estimate), rstd, shift); }

  void full(int64_t i) const {
    const Vec h = in.at(i);
    if constexpr (In::kStoresSum) store(sum + i, h);
    store(y + i, scale.at(i, unit(h)));
  }

  void part(int64_t i, int64_t n) const {
    const Vec h = in.part(i, n);
    if constexpr (In::kStoresSum) store_part(sum + i, h, n);
    store_part(y + i, scale.part(i, n, unit(h)), n);
  }

  void run(int64_t cols) const {
    int64_t i = 0;
    for (; i + kLanes <= cols; i += kLanes) full(i);
    if (i < cols) part(i, cols - i);
  }
};

template <class T, class In, class Scale>
void run_rows(const Norm& args, In in, Scale scale, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row) {
    in.go_to(args, row);
    const Moments m = moments(in, args.cols);
    const double scale_to_unit = rstd_of(m.variance, args.eps);
    const auto rstd = static_cast<float>(scale_to_unit);
    if (args.mean) args.mean[row] = static_cast<float>(m.mean());
    if (args.rstd) args.rstd[row] = rstd;
    T* const y = static_cast<T*>(args.y) + row * args.y_stride;
    T* const sum = In::kStoresSum ? static_cast<T*>(args.sum) + row * args.sum_stride : nullptr;
    Writer<T, In, Scale>{
        in, scale, y, sum, all(-m.estimate), all(rstd), all(static_cast<float>(-m.offset * scale_to_unit))}
        .run(args.cols);
  }
}

template <class T, class Scale>
void with_input(const Norm& args, Scale scale, int64_t begin, int64_t end) {
  if (args.residual) return run_rows<T>(args, Added<T>{}, scale, begin, end);
  return run_rows<T>(args, Plain<T>{}, scale, begin, end);
}

template <class T, class W>
void with_weight(const Norm& args, int64_t begin, int64_t end) {
  const auto* weight = static_cast<const W*>(args.weight);
  const auto* bias = static_cast<const W*>(args.bias);
  if (weight && bias) return with_input<T>(args, TimesPlus<W>{weight, bias}, begin, end);
  if (weight) return with_input<T>(args, Times<W>{weight}, begin, end);
  return with_input<T>(args, Plus<W>{bias}, begin, end);
}

template <class T>
void with_types(const Norm& args, int64_t begin, int64_t end) {
  if (!args.weight && !args.bias) return with_input<T>(args, Unchanged{}, begin, end);
  if (args.weight_dtype == args.dtype) return with_weight<T, T>(args, begin, end);
  return with_weight<T, float>(args, begin, end);
}

}  // namespace

void layer_norm_rows(const void* context, int64_t begin, int64_t end) {
  const Norm& args = *static_cast<const Norm*>(context);
  if (args.dtype == KW_FLOAT32) return with_types<float>(args, begin, end);
  if (args.dtype == KW_FLOAT16) return with_types<Half>(args, begin, end);
  return with_types<BFloat16>(args, begin, end);
}

void layer_norm_backward_chunks(const void* context, int64_t begin, int64_t end) {
  backward_chunks<true>(*static_cast<const NormBackward*>(context), begin, end);
}

void layer_norm_backward_columns(const void* context, int64_t begin, int64_t end) {
  backward_columns(*static_cast<const NormBackward*>(context), begin, end);
}

}  // namespace KW_ISA

#if KW_CPU_BASELINE
kw_status layer_norm(const Norm& args) {
  // A part of fewer elements takes this thread less than the 5 to 10 us in which another wakes up.
  constexpr int64_t kElements = 24576;
  parallel_for(args.rows, 1 + kElements / args.cols, picked_layer_norm_rows(), &args);
  return KW_OK;
}

kw_status layer_norm_backward(const NormBackward& args) {
  return run_norm_backward(args, picked_layer_norm_backward_chunks(), picked_layer_norm_backward_columns());
}
#endif

}  // namespace kw::cpu
