// SPDX-License-Identifier: MIT
// What the norms share on the CPU: rows as vectors, and sums over them. Included by the norms' op files alone.
#pragma once

#include "cpu/isa.h"
#include "cpu/simd.h"
#include "cpu/streaming_stores.h"
#include "ops/norm/host/norm.h"

namespace kw::cpu::KW_ISA {
namespace {

// Elements added in float32 before they go to a double: bounds the error of long rows, and costs nothing.
constexpr int64_t kBlock = 4096;

// The cache that rows are fetched into. Of float32 a row, its result, weight and bias fill the first.
template <class T>
constexpr int kFetchedInto = sizeof(T) == 4 ? 2 : 1;

// What h is made of. `first()` is what the first pass over a row reads, `second()` what the second does.
//
// Of every 4 * kLanes elements, ahead(i) fetches half as many of the next row: the first of the two passes over a row
// brings the one half, and after `turn` the second pass the other, so that memory is as busy in both.
template <class T>
struct Plain {
  using Second = Plain;
  static constexpr bool kStoresSum = false;
  const T* x;
  const T* next;

  void go_to(const Norm& args, int64_t row) {
    x = static_cast<const T*>(args.x) + row * args.x_stride;
    next = x + args.x_stride;
  }
  void turn(int64_t cols) { next += cols / 2; }
  void ahead(int64_t i) const { fetch<2 * kLanes, kFetchedInto<T>>(next + i / 2); }
  const Plain& first() const { return *this; }
  Plain second() const { return *this; }
  Vec at(int64_t i) const { return load(x + i); }
  Vec part(int64_t i, int64_t n) const { return load_part(x + i, n); }
  Two two(int64_t i) const { return load_two(x + i); }
};

template <class T>
struct Added {
  using Second = Added;
  static constexpr bool kStoresSum = true;
  const T* x;
  const T* residual;
  const T* next;
  const T* next_residual;

  void go_to(const Norm& args, int64_t row) {
    x = static_cast<const T*>(args.x) + row * args.x_stride;
    residual = static_cast<const T*>(args.residual) + row * args.residual_stride;
    next = x + args.x_stride;
    next_residual = residual + args.residual_stride;
  }
  void turn(int64_t cols) {
    next += cols / 2;
    next_residual += cols / 2;
  }
  void ahead(int64_t i) const {
    fetch<2 * kLanes, kFetchedInto<T>>(next + i / 2);
    fetch<2 * kLanes, kFetchedInto<T>>(next_residual + i / 2);
  }
  const Added& first() const { return *this; }
  Added second() const { return *this; }
  Vec at(int64_t i) const { return add(load(x + i), load(residual + i)); }
  Vec part(int64_t i, int64_t n) const { return add(load_part(x + i, n), load_part(residual + i, n)); }
  Two two(int64_t i) const {
    const Two a = load_two(x + i), b = load_two(residual + i);
    return {add(a.a, b.a), add(a.b, b.b)};
  }
};

// In float32 the sum is exactly what is stored, so that the first pass writes it, at its own place after its last use,
// and the second reads one row instead of two: four rows at once, two of them written, were more than the first cache
// holds.
struct AddedOnce : Added<float> {
  float* sum;

  struct First : Added<float> {
    float* sum;

    Vec at(int64_t i) const {
      const Vec h = Added<float>::at(i);
      store(sum + i, h);
      return h;
    }
    Vec part(int64_t i, int64_t n) const {
      const Vec h = Added<float>::part(i, n);
      store_part(sum + i, h, n);
      return h;
    }
    Two two(int64_t i) const { return {at(i), at(i + kLanes)}; }
  };

  struct Second {
    static constexpr bool kStoresSum = false;
    const float* sum;
    Added<float> added;

    void ahead(int64_t i) const { added.ahead(i); }
    Vec at(int64_t i) const { return load(sum + i); }
    Vec part(int64_t i, int64_t n) const { return load_part(sum + i, n); }
    Two two(int64_t i) const { return load_two(sum + i); }
  };

  void go_to(const Norm& args, int64_t row) {
    Added<float>::go_to(args, row);
    sum = static_cast<float*>(args.sum) + row * args.sum_stride;
  }
  First first() const { return {*this, sum}; }
  Second second() const { return {sum, *this}; }
};

// The vector with all but its first n lanes 0.
inline Vec first_lanes(Vec v, int64_t n) {
  float lanes[kLanes];
  store(lanes, v);
  return load_part(lanes, n);
}

// Adds up what a Sum makes of elements begin to end. Four sums at a time, since each waits for its own last addition.
template <class Sum, class In>
Sum sum_block(const In& in, Sum empty, int64_t i, int64_t end) {
  Sum s0 = empty, s1 = empty, s2 = empty, s3 = empty;
  for (; i + 4 * kLanes <= end; i += 4 * kLanes) {
    in.ahead(i);
    const Two first = in.two(i), second = in.two(i + 2 * kLanes);
    s0.take(first.a);
    s1.take(first.b);
    s2.take(second.a);
    s3.take(second.b);
  }
  for (; i + kLanes <= end; i += kLanes) s0.take(in.at(i));
  if (i < end) s1.take_part(in.part(i, end - i), end - i);
  s0.join(s1);
  s2.join(s3);
  s0.join(s2);
  return s0;
}

// The same of a whole row, block by block into `totals`.
template <class Sum, class In>
void sum_row(const In& in, Sum empty, int64_t cols, double* totals) {
  for (int64_t i = 0; i < cols; i += kBlock) {
    sum_block(in, empty, i, i + kBlock < cols ? i + kBlock : cols).add_to(totals);
  }
}

inline void add_total(double* sum, Vec v) { *sum += static_cast<double>(total(v)); }

// What becomes of a normalised row: times weight, plus bias, where there are any. `two` takes vectors in the order of
// load_two(like).
struct Unchanged {
  Vec weight_part(int64_t, int64_t) const { return all(1.0f); }
  template <class T>
  Two weight_two(const T*, int64_t) const {
    return {all(1.0f), all(1.0f)};
  }
  Vec at(int64_t, Vec v) const { return v; }
  Vec part(int64_t, int64_t, Vec v) const { return v; }
  template <class T>
  Two two(const T*, int64_t, Two v) const {
    return v;
  }
};

template <class W>
struct Times {
  const W* weight;

  Vec weight_part(int64_t i, int64_t n) const { return load_part(weight + i, n); }
  template <class T>
  Two weight_two(const T* like, int64_t i) const {
    return load_two_as(like, weight + i);
  }
  Vec at(int64_t i, Vec v) const { return mul(v, load(weight + i)); }
  Vec part(int64_t i, int64_t n, Vec v) const { return mul(v, load_part(weight + i, n)); }
  template <class T>
  Two two(const T* like, int64_t i, Two v) const {
    const Two w = weight_two(like, i);
    return {mul(v.a, w.a), mul(v.b, w.b)};
  }
};

template <class W>
struct Plus {
  const W* bias;

  Vec at(int64_t i, Vec v) const { return add(v, load(bias + i)); }
  Vec part(int64_t i, int64_t n, Vec v) const { return add(v, load_part(bias + i, n)); }
  template <class T>
  Two two(const T* like, int64_t i, Two v) const {
    const Two b = load_two_as(like, bias + i);
    return {add(v.a, b.a), add(v.b, b.b)};
  }
};

template <class W>
struct TimesPlus {
  const W* weight;
  const W* bias;

  Vec at(int64_t i, Vec v) const { return mul_add(v, load(weight + i), load(bias + i)); }
  Vec part(int64_t i, int64_t n, Vec v) const { return mul_add(v, load_part(weight + i, n), load_part(bias + i, n)); }
  template <class T>
  Two two(const T* like, int64_t i, Two v) const {
    const Two w = load_two_as(like, weight + i), b = load_two_as(like, bias + i);
    return {mul_add(v.a, w.a, b.a), mul_add(v.b, w.b, b.b)};
  }
};

}  // namespace
}  // namespace kw::cpu::KW_ISA
