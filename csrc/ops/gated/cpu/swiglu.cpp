// SPDX-License-Identifier: MIT
// One pass: each element is read, and its results are written at its own place, so that they may lie where the inputs
// do.
#include "ops/gated/host/swiglu.h"

#include "cpu/isa.h"
#include "cpu/pages.h"
#include "cpu/pool.h"
#include "cpu/simd.h"
#include "cpu/streaming_stores.h"

namespace kw::cpu {

KW_CPU_RANGE(swiglu_blocks)

// A row is cut into blocks of so many elements, so that threads can share a long one. A block of fewer takes this
// thread less than the 5 to 10 us in which another wakes up.
constexpr int64_t kBlock = 16384;

static int64_t blocks_a_row(int64_t cols) { return (cols + kBlock - 1) / kBlock; }

namespace KW_ISA {
namespace {

template <class T>
Vec exp_for(Vec v) {
  if constexpr (sizeof(T) == 2) return exp_short(v);
  return exp_inside(v);
}

// 1 / (1 + exp(-gate)), and what it lacks to 1. Both are made of exp(-|gate|), which does not overflow, so that neither
// is lost where it is small.
template <class T, bool kNear = false>
struct Sigmoid {
  Vec value, rest;

  explicit Sigmoid(Vec gate) {
    const Vec e = exp_for<T>(within(minus_size(gate), -105.0f, 0.0f));
    const Vec large = reciprocal(add(all(1.0f), e)), small = mul(e, large);
    value = where_negative(gate, small, large);
    rest = where_negative(gate, large, small);
  }
};

#ifdef KW_SIMD_EXP_MINUS
// Where all gates are near zero, exp(-gate) serves both signs: for results of 16 bits, a third less to do.
struct NearSigmoid {
  Vec value, rest;

  explicit NearSigmoid(Vec gate) : NearSigmoid(exp_minus(gate), 0) {}

 protected:
  NearSigmoid(Vec e, int) : value(reciprocal(add(all(1.0f), e))) { rest = mul(e, value); }
};

// The same bits for these gates, whatever their neighbours are. Below, 1 + exp(-gate) is exp(-gate).
struct FarSigmoid : NearSigmoid {
  explicit FarSigmoid(Vec gate) : NearSigmoid(exp_minus(within(gate, -34.0f, 105.0f)), 0) {
    value = where_below(gate, -34.0f, exp_short(within(gate, -105.0f, 0.0f)), value);
    rest = where_below(gate, -34.0f, all(1.0f), rest);
  }
};

// The value alone.
inline Vec near_value(Vec gate) { return reciprocal(exp_minus_and_one(gate)); }

inline Vec far_value(Vec gate) {
  const Vec value = near_value(within(gate, -34.0f, 105.0f));
  return where_below(gate, -34.0f, exp_short(within(gate, -105.0f, 0.0f)), value);
}

template <>
struct Sigmoid<Half, true> : NearSigmoid {
  using NearSigmoid::NearSigmoid;
};
template <>
struct Sigmoid<BFloat16, true> : NearSigmoid {
  using NearSigmoid::NearSigmoid;
};
template <>
struct Sigmoid<Half, false> : FarSigmoid {
  using FarSigmoid::FarSigmoid;
};
template <>
struct Sigmoid<BFloat16, false> : FarSigmoid {
  using FarSigmoid::FarSigmoid;
};
#endif

// Fetches what a row's place is read for later: kBytes further on, which is in rows after this one where a row is
// short.
template <class T>
struct Ahead {
  static constexpr int64_t kBytes = 4096, kElements = kBytes / sizeof(T);
  const T* from;

  Ahead(const T* row, int64_t stride, int64_t cols)
      : from(cols < 4 * kElements ? row + (kElements + cols - 1) / cols * stride : row + kElements) {}
  void fetch(int64_t i) const { KW_ISA::fetch<2 * kLanes>(from + i); }
};

// Whether all stores of results are non-temporal. Not where the inputs are: those are in the caches already.
inline bool all_past_caches(const Swiglu& a, int64_t element_bytes) {
  const int64_t bytes = a.rows * a.cols * element_bytes;
  if (!kStreams || a.out == a.gate || a.out == a.up || a.up_out == a.up) return false;
  if ((a.backward ? 2 : 1) * bytes < kLeastPastCaches || !begins_lines(a.out, a.out_stride, element_bytes))
    return false;
  return !a.backward || begins_lines(a.up_out, a.up_out_stride, element_bytes);
}

template <class T, bool kPast>
struct Forward {
  const T* gate;
  const T* up;
  T* y;
  Ahead<T> later_gate, later_up;

  Forward(const Swiglu& a, int64_t row)
      : gate(static_cast<const T*>(a.gate) + row * a.gate_stride),
        up(static_cast<const T*>(a.up) + row * a.up_stride),
        y(static_cast<T*>(a.out) + row * a.out_stride),
        later_gate(gate, a.gate_stride, a.cols),
        later_up(up, a.up_stride, a.cols) {}

  // gate * e / (1 + e) * up with e = exp(gate): past 40 that is gate * up, and the reciprocal stays in its range.
  template <bool kNear = false>
  static Vec of(Vec gate, Vec up) {
#ifdef KW_SIMD_EXP_MINUS
    if constexpr (sizeof(T) == 2) return mul(mul(gate, kNear ? near_value(gate) : far_value(gate)), up);
#endif
    const Vec e = exp_for<T>(within(gate, -105.0f, 40.0f));
    return mul(mul(gate, mul(e, reciprocal(add(all(1.0f), e)))), up);
  }

  void two(int64_t i) const {
    later_gate.fetch(i);
    later_up.fetch(i);
    const Two g = load_two(gate + i), u = load_two(up + i);
    if (__builtin_expect(near_zero(gate + i), 1)) {
      const Two v{of<true>(g.a, u.a), of<true>(g.b, u.b)};
      return kPast ? stream_two(y + i, v) : store_two_short_nan(y + i, v);
    }
    put_two(y + i, Two{of(g.a, u.a), of(g.b, u.b)}, kPast);
  }
  void full(int64_t i) const { store(y + i, of(load(gate + i), load(up + i))); }
  void part(int64_t i, int64_t n) const { store_part(y + i, of(load_part(gate + i, n), load_part(up + i, n)), n); }
};

template <class T, bool kPast>
struct Backward {
  const T* gate;
  const T* up;
  const T* dy;
  T* dgate;
  T* dup;
  Ahead<T> later_gate, later_up, later_dy;

  Backward(const Swiglu& a, int64_t row)
      : gate(static_cast<const T*>(a.gate) + row * a.gate_stride),
        up(static_cast<const T*>(a.up) + row * a.up_stride),
        dy(static_cast<const T*>(a.dy) + row * a.dy_stride),
        dgate(static_cast<T*>(a.out) + row * a.out_stride),
        dup(static_cast<T*>(a.up_out) + row * a.up_out_stride),
        later_gate(gate, a.gate_stride, a.cols),
        later_up(up, a.up_stride, a.cols),
        later_dy(dy, a.dy_stride, a.cols) {}

  struct Both {
    Vec gate, up;
  };

  template <bool kNear = false>
  static Both of(Vec gate, Vec up, Vec dy) {
    const Sigmoid<T, kNear> s(gate);
    const Vec silu = mul(gate, s.value);
    return {mul(mul(mul_add(silu, s.rest, s.value), up), dy), mul(silu, dy)};
  }

  void two(int64_t i) const {
    later_gate.fetch(i);
    later_up.fetch(i);
    later_dy.fetch(i);
    const Two g = load_two(gate + i), u = load_two(up + i), d = load_two(dy + i);
    const bool near = near_zero(gate + i);
    const Both a = near ? of<true>(g.a, u.a, d.a) : of(g.a, u.a, d.a);
    const Both b = near ? of<true>(g.b, u.b, d.b) : of(g.b, u.b, d.b);
    put_two(dgate + i, Two{a.gate, b.gate}, kPast);
    put_two(dup + i, Two{a.up, b.up}, kPast);
  }

  void full(int64_t i) const {
    const Both both = of(load(gate + i), load(up + i), load(dy + i));
    store(dgate + i, both.gate);
    store(dup + i, both.up);
  }

  void part(int64_t i, int64_t n) const {
    const Both both = of(load_part(gate + i, n), load_part(up + i, n), load_part(dy + i, n));
    store_part(dgate + i, both.gate, n);
    store_part(dup + i, both.up, n);
  }
};

template <class Rows>
void run(const Swiglu& args, int64_t begin, int64_t end) {
  const int64_t blocks = blocks_a_row(args.cols);
  int64_t row = begin / blocks, i = (begin - row * blocks) * kBlock;
  for (; begin < end; ++begin) {
    const int64_t stop = i + kBlock < args.cols ? i + kBlock : args.cols;
    const Rows at(args, row);
    for (; i + 2 * kLanes <= stop; i += 2 * kLanes) at.two(i);
    for (; i + kLanes <= stop; i += kLanes) at.full(i);
    if (i < stop) at.part(i, stop - i);
    i = stop < args.cols ? stop : 0;
    row += stop < args.cols ? 0 : 1;
  }
}

template <class T, bool kPast>
void run_past(const Swiglu& args, int64_t begin, int64_t end) {
  if (args.backward) {
    run<Backward<T, kPast>>(args, begin, end);
  } else {
    run<Forward<T, kPast>>(args, begin, end);
  }
  if (kPast) stream_end();
}

template <class T>
void run_typed(const Swiglu& args, int64_t begin, int64_t end) {
  if (kStreams && all_past_caches(args, sizeof(T))) return run_past<T, kStreams>(args, begin, end);
  return run_past<T, false>(args, begin, end);
}

}  // namespace

void swiglu_blocks(const void* context, int64_t begin, int64_t end) {
  const Swiglu& args = *static_cast<const Swiglu*>(context);
  if (args.dtype == KW_FLOAT32) return run_typed<float>(args, begin, end);
  if (args.dtype == KW_FLOAT16) return run_typed<Half>(args, begin, end);
  return run_typed<BFloat16>(args, begin, end);
}

}  // namespace KW_ISA

#if KW_CPU_BASELINE
kw_status swiglu(const Swiglu& args) {
  const int64_t size = args.dtype == KW_FLOAT32 ? 4 : 2, bytes = args.cols * size;
  will_write(args.out, args.rows, args.out_stride, bytes, size);
  will_write(args.up_out, args.rows, args.up_out_stride, bytes, size);
  const int64_t grain = args.cols < kBlock ? 1 + kBlock / args.cols : 1;
  parallel_for(args.rows * blocks_a_row(args.cols), grain, picked_swiglu_blocks(), &args);
  return KW_OK;
}
#endif

}  // namespace kw::cpu
