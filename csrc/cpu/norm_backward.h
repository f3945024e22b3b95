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

template <class T>
struct Only {
  const T* x;
  Vec at(int64_t i) const { return load(x + i); }
  Vec part(int64_t i, int64_t n) const { return load_part(x + i, n); }
  Two two(int64_t i) const { return load_two(x + i); }
  void ahead(int64_t) const {}
};

// Rows that are worked on together.
constexpr int kGradRows = 4;
// Elements whose sums stay in float32.
constexpr int64_t kGradBlock = 1024;

// A weight, and the sum over rows of a column, are loaded once for all of these rows.
template <class T, int kRows>
struct GradRows {
  const T* dy[kRows];
  const T* h[kRows];
  const T* dsum[kRows];  // used where args.dsum is
  T* dx[kRows];
  const T* next_h[kRows];   // of the rows after these: fetched in the first pass
  const T* next_dy[kRows];  // and in the second

  GradRows(const NormBackward& args, int64_t first) {
    for (int r = 0; r < kRows; ++r) {
      dy[r] = static_cast<const T*>(args.dy) + (first + r) * args.dy_stride;
      h[r] = static_cast<const T*>(args.h) + (first + r) * args.h_stride;
      dsum[r] = args.dsum ? static_cast<const T*>(args.dsum) + (first + r) * args.dsum_stride : nullptr;
      dx[r] = static_cast<T*>(args.dx) + (first + r) * args.dx_stride;
      next_h[r] = h[r] + kRows * args.h_stride;
      next_dy[r] = dy[r] + kRows * args.dy_stride;
    }
  }
};

// Sums over a row; d is h, or h - estimate.
struct GradTotals {
  double d = 0, dd = 0, g = 0, gd = 0;
};

template <bool kCentered>
struct GradSums {
  Vec d = zero(), dd = zero(), g = zero(), gd = zero();

  void take(Vec deviation, Vec grad) {
    dd = mul_add(deviation, deviation, dd);
    gd = mul_add(grad, deviation, gd);
    if constexpr (kCentered) {
      d = add(d, deviation);
      g = add(g, grad);
    }
  }
  void add_to(GradTotals* totals) const {
    add_total(&totals->dd, dd);
    add_total(&totals->gd, gd);
    if constexpr (kCentered) {
      add_total(&totals->d, d);
      add_total(&totals->g, g);
    }
  }
};

// What the second pass computes with: d = h + first + second is h - mean to all its digits, and
// dx = dy * rstd * weight + d * slope + constant.
struct Coefficients {
  Vec first, second, rstd, slope, constant;
};

template <bool kCentered, int kRows, class T, class Scale>
void sum_grads(const GradRows<T, kRows>& rows, Scale scale, const float (&estimate)[kRows], int64_t cols,
               GradTotals (&totals)[kRows]) {
  for (int64_t i = 0; i < cols;) {
    const int64_t end = i + kGradBlock < cols ? i + kGradBlock : cols;
    GradSums<kCentered> sums[kRows];
    for (; i + kLanes <= end; i += kLanes) {
      const Vec weight = scale.weight_at(i);
      for (int r = 0; r < kRows; ++r) {
        fetch<kLanes, 2>(rows.next_h[r] + i);
        const Vec h = load(rows.h[r] + i);
        sums[r].take(kCentered ? add(h, all(-estimate[r])) : h, mul(load(rows.dy[r] + i), weight));
      }
    }
    if (const int64_t n = end - i; n > 0) {
      const Vec weight = scale.weight_part(i, n);
      for (int r = 0; r < kRows; ++r) {
        const Vec h = load_part(rows.h[r] + i, n);
        const Vec d = kCentered ? first_lanes(add(h, all(-estimate[r])), n) : h;
        sums[r].take(d, mul(load_part(rows.dy[r] + i, n), weight));
      }
      i = end;
    }
    for (int r = 0; r < kRows; ++r) sums[r].add_to(&totals[r]);
  }
}

template <bool kCentered>
Coefficients coefficients(const NormBackward& args, int64_t row, float estimate, const GradTotals& totals) {
  const auto n = static_cast<double>(args.cols);
  double offset = 0, variance = totals.dd / n, g = 0;
  if constexpr (kCentered) {
    const Moments m = moments_of(estimate, totals.d, totals.dd, args.cols);
    offset = args.mean ? 0 : m.offset;
    variance = m.variance;
    g = totals.g / n;
  }
  const double rstd = args.rstd ? static_cast<double>(args.rstd[row]) : rstd_of(variance, args.eps);
  const double gu = (totals.gd / n - offset * g) * rstd;
  return {all(-estimate), all(static_cast<float>(-offset)), all(static_cast<float>(rstd)),
          all(static_cast<float>(-gu * rstd * rstd)), all(static_cast<float>(-g * rstd))};
}

// Where the sums over a chunk's rows are kept; nullptr: not wanted.
struct Share {
  float* dweight;
  float* dbias;
};

template <bool kCentered, class Load, class Store>
void write_row(const Coefficients& c, Vec weight, Vec dy, Vec h, Vec* dweight, Vec* dbias, Load dsum, Store store_dx) {
  const Vec d = kCentered ? add(add(h, c.first), c.second) : h;
  const Vec scaled = mul(dy, c.rstd);
  store_dx(dsum(mul_add(scaled, weight, kCentered ? mul_add(d, c.slope, c.constant) : mul(d, c.slope))));
  *dweight = mul_add(scaled, d, *dweight);
  if constexpr (kCentered) *dbias = add(*dbias, dy);
}

template <bool kCentered, int kRows, class T, class Scale>
void write_grads(const GradRows<T, kRows>& rows, Scale scale, const Coefficients (&c)[kRows], bool dsum, Share share,
                 int64_t cols) {
  int64_t i = 0;
  for (; i + kLanes <= cols; i += kLanes) {
    const Vec weight = scale.weight_at(i);
    Vec dweight = share.dweight ? load(share.dweight + i) : zero();
    Vec dbias = kCentered && share.dweight ? load(share.dbias + i) : zero();
    for (int r = 0; r < kRows; ++r) {
      fetch<kLanes, 2>(rows.next_dy[r] + i);
      write_row<kCentered>(
          c[r], weight, load(rows.dy[r] + i), load(rows.h[r] + i), &dweight, &dbias,
          [&](Vec v) { return dsum ? add(v, load(rows.dsum[r] + i)) : v; }, [&](Vec v) { store(rows.dx[r] + i, v); });
    }
    if (share.dweight) {
      store(share.dweight + i, dweight);
      if constexpr (kCentered) store(share.dbias + i, dbias);
    }
  }
  const int64_t n = cols - i;
  if (n == 0) return;
  const Vec weight = scale.weight_part(i, n);
  Vec dweight = share.dweight ? load_part(share.dweight + i, n) : zero();
  Vec dbias = kCentered && share.dweight ? load_part(share.dbias + i, n) : zero();
  for (int r = 0; r < kRows; ++r) {
    write_row<kCentered>(
        c[r], weight, load_part(rows.dy[r] + i, n), load_part(rows.h[r] + i, n), &dweight, &dbias,
        [&](Vec v) { return dsum ? add(v, load_part(rows.dsum[r] + i, n)) : v; },
        [&](Vec v) { store_part(rows.dx[r] + i, v, n); });
  }
  if (share.dweight) {
    store_part(share.dweight + i, dweight, n);
    if constexpr (kCentered) store_part(share.dbias + i, dbias, n);
  }
}

template <bool kCentered, int kRows, class T, class Scale>
void run_grads(const NormBackward& args, Scale scale, int64_t first, Share share) {
  const GradRows<T, kRows> rows(args, first);
  float estimate[kRows] = {};
  for (int r = 0; kCentered && r < kRows; ++r) {
    estimate[r] = args.mean ? args.mean[first + r] : estimate_mean(Only<T>{rows.h[r]}, args.cols);
  }
  GradTotals totals[kRows];
  sum_grads<kCentered>(rows, scale, estimate, args.cols, totals);
  Coefficients c[kRows];
  for (int r = 0; r < kRows; ++r) c[r] = coefficients<kCentered>(args, first + r, estimate[r], totals[r]);
  write_grads<kCentered>(rows, scale, c, args.dsum != nullptr, share, args.cols);
}

template <bool kCentered, class T, class Scale>
void run_chunks(const NormBackward& args, Scale scale, int64_t begin, int64_t end) {
  const Chunks cut = chunks_of(args.rows);
  const int64_t pitch = share_pitch(args.cols);
  const bool grads = args.dweight || args.dbias;
  for (int64_t chunk = begin; chunk < end; ++chunk) {
    float* const sums = grads ? share_of(args, chunk) : nullptr;
    const Share share{sums, grads ? sums + pitch : nullptr};
    if (grads) memset(sums, 0, static_cast<size_t>(pitch) * sizeof(float) * (kCentered ? 2 : 1));
    int64_t row = chunk * cut.rows_each;
    const int64_t last = row + cut.rows_each < args.rows ? row + cut.rows_each : args.rows;
    for (; row + kGradRows <= last; row += kGradRows) run_grads<kCentered, kGradRows, T>(args, scale, row, share);
    for (; row < last; ++row) run_grads<kCentered, 1, T>(args, scale, row, share);
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
