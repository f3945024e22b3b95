// SPDX-License-Identifier: MIT
// The backward pass of both norms, by chunks of rows (norm_chunks.h). Two passes a row: the first only reads, the
// second reads again (from the nearest caches by then) and writes dx. With u = (h - mean) * rstd and g = dy * weight,
//
//   dx = dsum + rstd * (g - mean(g) - u * mean(g * u))
//
// where a norm that is not centered has neither mean.
#pragma once

#include "norm_affine.h"
#include "norm_chunks.h"
#include "norm_moments.h"

namespace kw::cpu::KW_ISA {
namespace {

struct Pair {
  Vec g, h;
};

// A row of dy * weight and of h.
template <class T, class Scale>
struct GradRow {
  const T* dy;
  const T* h;
  Scale scale;

  Pair at(int64_t i) const { return {scale.at(i, load(dy + i)), load(h + i)}; }
  Pair part(int64_t i, int64_t n) const { return {scale.part(i, n, load_part(dy + i, n)), load_part(h + i, n)}; }
};

template <class T>
struct OnlyRow {
  const T* x;
  Vec at(int64_t i) const { return load(x + i); }
  Vec part(int64_t i, int64_t n) const { return load_part(x + i, n); }
};

// Sums of d, d^2, g and g * d, where d = h - estimate.
struct CenteredSums {
  Vec minus_estimate;
  Vec d = zero(), dd = zero(), g = zero(), gd = zero();

  void take(const Pair& p) { take_deviation(add(p.h, minus_estimate), p.g); }
  void take_part(const Pair& p, int64_t n) { take_deviation(first_lanes(add(p.h, minus_estimate), n), p.g); }
  void take_deviation(Vec deviation, Vec grad) {
    d = add(d, deviation);
    dd = mul_add(deviation, deviation, dd);
    g = add(g, grad);
    gd = mul_add(grad, deviation, gd);
  }
  void join(const CenteredSums& other) {
    d = add(d, other.d);
    dd = add(dd, other.dd);
    g = add(g, other.g);
    gd = add(gd, other.gd);
  }
  void add_to(double* totals) const {
    add_total(totals, d);
    add_total(totals + 1, dd);
    add_total(totals + 2, g);
    add_total(totals + 3, gd);
  }
};

// Sums of h^2 and g * h.
struct PlainSums {
  Vec hh = zero(), gh = zero();

  void take(const Pair& p) {
    hh = mul_add(p.h, p.h, hh);
    gh = mul_add(p.g, p.h, gh);
  }
  void take_part(const Pair& p, int64_t) { take(p); }
  void join(const PlainSums& other) {
    hh = add(hh, other.hh);
    gh = add(gh, other.gh);
  }
  void add_to(double* totals) const {
    add_total(totals, hh);
    add_total(totals + 1, gh);
  }
};

// What the second pass needs: u = (h + minus_estimate) * rstd + shift, dx = g * rstd + constant + u * slope.
struct Coefficients {
  float minus_estimate, rstd, shift, constant, slope;
};

template <class In, class T>
Coefficients coefficients(const NormBackward& args, const In& in, const T* h, int64_t row) {
  const auto n = static_cast<double>(args.cols);
  double totals[4] = {};
  if (!args.centered) {
    sum_row(in, PlainSums{}, args.cols, totals);
    const double rstd = args.rstd ? static_cast<double>(args.rstd[row]) : rstd_of(totals[0] / n, args.eps);
    const double gu = totals[1] * rstd / n;
    return {0, static_cast<float>(rstd), 0, 0, static_cast<float>(-gu * rstd)};
  }
  const float estimate = args.mean ? args.mean[row] : estimate_mean(OnlyRow<T>{h}, args.cols);
  sum_row(in, CenteredSums{all(-estimate)}, args.cols, totals);
  const Moments m = moments_of(estimate, totals[0], totals[1], args.cols);
  const double rstd = args.rstd ? static_cast<double>(args.rstd[row]) : rstd_of(m.variance, args.eps);
  const double offset = args.mean ? 0 : m.offset;
  const double g = totals[2] / n, gu = (totals[3] / n - offset * g) * rstd;
  return {-estimate, static_cast<float>(rstd), static_cast<float>(-offset * rstd), static_cast<float>(-g * rstd),
          static_cast<float>(-gu * rstd)};
}

// The second pass of one row.
template <bool kCentered, bool kGrads, class T, class Scale>
struct GradWriter {
  GradRow<T, Scale> in;
  const T* dsum;  // nullptr: none
  T* dx;
  float* dweight;  // sums over the chunk's rows
  float* dbias;
  Vec minus_estimate, rstd, shift, constant, slope;

  Vec unit(Vec h) const { return kCentered ? mul_add(add(h, minus_estimate), rstd, shift) : mul(h, rstd); }
  Vec result(Vec u, Vec g) const { return mul_add(u, slope, kCentered ? mul_add(g, rstd, constant) : mul(g, rstd)); }

  void full(int64_t i) const {
    const Vec dy = load(in.dy + i), u = unit(load(in.h + i));
    const Vec to_h = result(u, in.scale.at(i, dy));
    store(dx + i, dsum ? add(to_h, load(dsum + i)) : to_h);
    if constexpr (kGrads) {
      store(dweight + i, mul_add(dy, u, load(dweight + i)));
      if constexpr (kCentered) store(dbias + i, add(dy, load(dbias + i)));
    }
  }

  void part(int64_t i, int64_t n) const {
    const Vec dy = load_part(in.dy + i, n), u = unit(load_part(in.h + i, n));
    const Vec to_h = result(u, in.scale.part(i, n, dy));
    store_part(dx + i, dsum ? add(to_h, load_part(dsum + i, n)) : to_h, n);
    if constexpr (kGrads) {
      store_part(dweight + i, mul_add(dy, u, load_part(dweight + i, n)), n);
      if constexpr (kCentered) store_part(dbias + i, add(dy, load_part(dbias + i, n)), n);
    }
  }

  void run(int64_t cols) const {
    int64_t i = 0;
    for (; i + kLanes <= cols; i += kLanes) full(i);
    if (i < cols) part(i, cols - i);
  }
};

template <bool kCentered, bool kGrads, class T, class Scale>
void run_chunk(const NormBackward& args, Scale scale, int64_t begin, int64_t end, float* share) {
  const int64_t pitch = share_pitch(args.cols);
  if (kGrads) memset(share, 0, static_cast<size_t>(pitch) * sizeof(float) * (kCentered ? 2 : 1));
  for (int64_t row = begin; row < end; ++row) {
    const GradRow<T, Scale> in{static_cast<const T*>(args.dy) + row * args.dy_stride,
                               static_cast<const T*>(args.h) + row * args.h_stride, scale};
    const Coefficients c = coefficients(args, in, in.h, row);
    const T* dsum = args.dsum ? static_cast<const T*>(args.dsum) + row * args.dsum_stride : nullptr;
    T* dx = static_cast<T*>(args.dx) + row * args.dx_stride;
    GradWriter<kCentered, kGrads, T, Scale>{
        in,          dsum, dx, share, share + pitch, all(c.minus_estimate), all(c.rstd), all(c.shift), all(c.constant),
        all(c.slope)}
        .run(args.cols);
  }
}

template <bool kCentered, class T, class Scale>
void run_chunks(const NormBackward& args, Scale scale, int64_t begin, int64_t end) {
  const Chunks cut = chunks_of(args.rows);
  const bool grads = args.dweight || args.dbias;
  for (int64_t chunk = begin; chunk < end; ++chunk) {
    const int64_t first = chunk * cut.rows_each;
    const int64_t last = first + cut.rows_each < args.rows ? first + cut.rows_each : args.rows;
    if (grads) {
      run_chunk<kCentered, true, T>(args, scale, first, last, share_of(args, chunk));
    } else {
      run_chunk<kCentered, false, T>(args, scale, first, last, nullptr);
    }
  }
}

template <bool kCentered, class T>
void backward_chunks_of(const NormBackward& args, int64_t begin, int64_t end) {
  if (!args.weight) return run_chunks<kCentered, T>(args, Unchanged{}, begin, end);
  if (args.weight_dtype == args.dtype) {
    return run_chunks<kCentered, T>(args, Times<T>{static_cast<const T*>(args.weight)}, begin, end);
  }
  return run_chunks<kCentered, T>(args, Times<float>{static_cast<const float*>(args.weight)}, begin, end);
}

template <bool kCentered>
void backward_chunks(const NormBackward& args, int64_t begin, int64_t end) {
  if (args.dtype == KW_FLOAT32) return backward_chunks_of<kCentered, float>(args, begin, end);
  if (args.dtype == KW_FLOAT16) return backward_chunks_of<kCentered, Half>(args, begin, end);
  return backward_chunks_of<kCentered, BFloat16>(args, begin, end);
}

// Adds the chunks' shares of these columns, in their order.
template <class W>
void add_shares(const float* shares, int64_t count, int64_t pitch, W* out, int64_t begin, int64_t end) {
  int64_t i = begin;
  for (; i + kLanes <= end; i += kLanes) {
    Vec sum = zero();
    for (int64_t c = 0; c < count; ++c) sum = add(sum, load(shares + c * pitch + i));
    store(out + i, sum);
  }
  if (i < end) {
    Vec sum = zero();
    for (int64_t c = 0; c < count; ++c) sum = add(sum, load_part(shares + c * pitch + i, end - i));
    store_part(out + i, sum, end - i);
  }
}

inline void backward_columns(const NormBackward& args, int64_t begin, int64_t end) {
  const Chunks cut = chunks_of(args.rows);
  const int64_t pitch = share_pitch(args.cols), sums = args.centered ? 2 : 1;
  void* const out[] = {args.dweight, args.dbias};
  for (int64_t i = 0; i < sums; ++i) {
    const float* const shares = share_of(args, 0) + i * pitch;
    if (!out[i]) continue;
    if (args.weight_dtype == KW_FLOAT32) {
      add_shares(shares, cut.count, pitch * sums, static_cast<float*>(out[i]), begin, end);
    } else if (args.weight_dtype == KW_FLOAT16) {
      add_shares(shares, cut.count, pitch * sums, static_cast<Half*>(out[i]), begin, end);
    } else {
      add_shares(shares, cut.count, pitch * sums, static_cast<BFloat16*>(out[i]), begin, end);
    }
  }
}

}  // namespace
}  // namespace kw::cpu::KW_ISA
