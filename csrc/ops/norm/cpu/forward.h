// SPDX-License-Identifier: MIT
// The forward pass of a norm. Two passes a row: the first only reads, and finds what its Unit needs; the second reads
// again (from the nearest caches by then), and writes y and sum. So each element is written after its last use, at its
// own place, and the in-place forms need no buffer.
//
// A Unit is what the norms differ in: `Unit::of(in, args, row)` makes it of a row, and leaves the row's statistics
// where they are wanted; `at(h)` is the normalised element; `kBias` says whether a bias can be added.
#pragma once

#include "cpu/pages.h"
#include "cpu/pool.h"
#include "ops/norm/cpu/moments.h"

namespace kw::cpu::KW_ISA {
namespace {

// The second pass of one row.
template <class T, class In, class Unit, class Scale>
struct Writer {
  In in;
  Unit unit;
  Scale scale;
  T* y;
  T* sum;
  bool past;  // y takes non-temporal stores

  void two(int64_t i) const {
    const Two h = in.two(i);
    if constexpr (In::kStoresSum) store_two(sum + i, h);
    put_two(y + i, scale.two(y, i, Two{unit.at(h.a), unit.at(h.b)}), past);
  }

  void full(int64_t i) const {
    const Vec h = in.at(i);
    if constexpr (In::kStoresSum) store(sum + i, h);
    store(y + i, scale.at(i, unit.at(h)));
  }

  void part(int64_t i, int64_t n) const {
    const Vec h = in.part(i, n);
    if constexpr (In::kStoresSum) store_part(sum + i, h, n);
    store_part(y + i, scale.part(i, n, unit.at(h)), n);
  }

  void run(int64_t cols) const {
    int64_t i = 0;
    for (; i + 4 * kLanes <= cols; i += 4 * kLanes) {
      in.ahead(i);
      two(i);
      two(i + 2 * kLanes);
    }
    for (; i + 2 * kLanes <= cols; i += 2 * kLanes) two(i);
    for (; i + kLanes <= cols; i += kLanes) full(i);
    if (i < cols) part(i, cols - i);
  }
};

template <class T, class Unit, class In, class Scale>
void run_rows(const Norm& args, In in, Scale scale, int64_t begin, int64_t end) {
  // What is written in place is in the caches already.
  const bool past = args.y != args.x && past_caches(args.y, args.rows, args.y_stride, args.cols, sizeof(T));
  for (int64_t row = begin; row < end; ++row) {
    in.go_to(args, row);
    const Unit unit = Unit::of(in, args, row);
    in.turn(args.cols);
    T* const y = static_cast<T*>(args.y) + row * args.y_stride;
    using Again = typename In::Second;
    T* const sum = Again::kStoresSum ? static_cast<T*>(args.sum) + row * args.sum_stride : nullptr;
    Writer<T, Again, Unit, Scale>{in.second(), unit, scale, y, sum, past}.run(args.cols);
  }
  if (past) stream_end();
}

template <class T, class Unit, class Scale>
void with_input(const Norm& args, Scale scale, int64_t begin, int64_t end) {
  if constexpr (sizeof(T) == sizeof(float)) {
    if (args.residual) return run_rows<T, Unit>(args, AddedOnce{}, scale, begin, end);
  } else {
    if (args.residual) return run_rows<T, Unit>(args, Added<T>{}, scale, begin, end);
  }
  return run_rows<T, Unit>(args, Plain<T>{}, scale, begin, end);
}

template <class T, class Unit, class W>
void with_parameters(const Norm& args, int64_t begin, int64_t end) {
  const auto* weight = static_cast<const W*>(args.weight);
  if constexpr (Unit::kBias) {
    const auto* bias = static_cast<const W*>(args.bias);
    if (weight && bias) return with_input<T, Unit>(args, TimesPlus<W>{weight, bias}, begin, end);
    if (bias) return with_input<T, Unit>(args, Plus<W>{bias}, begin, end);
  }
  return with_input<T, Unit>(args, Times<W>{weight}, begin, end);
}

template <class T, class Unit>
void with_types(const Norm& args, int64_t begin, int64_t end) {
  if (!args.weight && !args.bias) return with_input<T, Unit>(args, Unchanged{}, begin, end);
  if (args.weight_dtype == args.dtype) return with_parameters<T, Unit, T>(args, begin, end);
  return with_parameters<T, Unit, float>(args, begin, end);
}

template <class Unit>
void forward_rows(const Norm& args, int64_t begin, int64_t end) {
  if (args.dtype == KW_FLOAT32) return with_types<float, Unit>(args, begin, end);
  if (args.dtype == KW_FLOAT16) return with_types<Half, Unit>(args, begin, end);
  return with_types<BFloat16, Unit>(args, begin, end);
}

}  // namespace
}  // namespace kw::cpu::KW_ISA

#if KW_CPU_BASELINE
namespace kw::cpu {
namespace {

inline kw_status run_norm(const Norm& args, Range rows) {
  // A part of fewer elements takes this thread less than the 5 to 10 us in which another wakes up.
  constexpr int64_t kElements = 24576;
  const int64_t size = size_of(args.dtype), bytes = args.cols * size;
  will_write(args.y, args.rows, args.y_stride, bytes, size);
  will_write(args.sum, args.rows, args.sum_stride, bytes, size);
  parallel_for(args.rows, 1 + kElements / args.cols, rows, &args);
  return KW_OK;
}

}  // namespace
}  // namespace kw::cpu
#endif
