// SPDX-License-Identifier: MIT
// The backward pass of both norms, by chunks of rows (chunks.h). Two passes a row: the first only reads, the
// second reads again (from the nearest caches by then) and writes dx. With u = (h - mean) * rstd and g = dy * weight,
//
//   dx = dsum + rstd * (g - mean(g) - u * mean(g * u))
//
// where a norm that is not centered has neither mean.
//
// The second pass of some rows and the first of those after them go along together, by strips of columns: one computes
// while the other waits for memory.
#pragma once

#include "ops/norm/cpu/moments.h"
#include "ops/norm/cpu/shares.h"

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

// Rows that are worked on together, fewer at a chunk's end: a weight, and the sum over rows of a column, are loaded
// once for all of them. Four were no faster, one slower. Plain C++ is for CPUs of which nothing is known, and kept
// small.
constexpr int kGradRows = KW_CPU_SMALL ? 1 : 2;
// Columns of a strip. Longer ones ask memory for more at once than it takes, and then leave it idle: the more so the
// less there is to compute. Shorter ones cost time where all is in the caches.
template <class T, bool kCentered>
constexpr int64_t kStrip = sizeof(T) == 2 ? 128
                           : kCentered    ? 64
                                          : 32;
// Elements whose sums stay in float32: some whole strips.
constexpr int64_t kGradBlock = 1024;

// From a column of this strip to what memory is asked for then: 2 KiB on in this row, or in the next.
template <class T>
const T* ahead_of(const T* row, const T* next, int64_t strip, int64_t cols) {
  constexpr int64_t kFar = 2048 / sizeof(T);
  return strip + kFar < cols ? row + kFar : next + kFar - cols;
}

template <class T>
struct GradRows {
  int count = 0;  // of the arrays' places that are used
  const T* dy[kGradRows];
  const T* h[kGradRows];
  const T* dsum[kGradRows];  // where args.dsum is
  T* dx[kGradRows];
  const T* next_h[kGradRows];  // of the rows after these
  const T* next_dy[kGradRows];

  GradRows() = default;
  GradRows(const NormBackward& args, int64_t first, int rows) : count(rows) {
    // After the last row there is nothing to ask for but what is there.
    const int64_t ahead = first + 2 * rows <= args.rows ? rows : 0;
    for (int r = 0; r < kGradRows; ++r) {
      const int64_t row = r < count ? first + r : first;
      dy[r] = static_cast<const T*>(args.dy) + row * args.dy_stride;
      h[r] = static_cast<const T*>(args.h) + row * args.h_stride;
      dsum[r] = args.dsum ? static_cast<const T*>(args.dsum) + row * args.dsum_stride : nullptr;
      dx[r] = static_cast<T*>(args.dx) + row * args.dx_stride;
      next_h[r] = h[r] + ahead * args.h_stride;
      next_dy[r] = dy[r] + ahead * args.dy_stride;
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

template <class T>
bool past_caches(const NormBackward& args) {
  return past_caches(args.dx, args.rows, args.dx_stride, args.cols, sizeof(T));
}

// What the second pass computes with: d = h + first + second is h - mean to all its digits, and
// dx = dy * rstd * weight + d * slope + constant.
struct Coefficients {
  Vec first, second, rstd, slope, constant;
};

// The first pass over whole pairs of vectors of columns begin to end: where they end. It asks for what comes of h, and
// the second pass for what comes of dy.
template <bool kCentered, int kRows, class T, class Scale>
int64_t sum_pairs(const GradRows<T>& rows, Scale scale, const float (&estimate)[kGradRows], int64_t begin, int64_t end,
                  int64_t cols, GradSums<kCentered> (&kept)[kGradRows]) {
  GradSums<kCentered> sums[kRows];
  for (int r = 0; r < kRows; ++r) sums[r] = kept[r];
  int64_t i = begin;
  for (; i + 2 * kLanes <= end; i += 2 * kLanes) {
    const Two weight = scale.weight_two(rows.h[0], i);
    for (int r = 0; r < kRows; ++r) {
      fetch<2 * kLanes>(ahead_of(rows.h[r], rows.next_h[r], begin, cols) + i);
      const Two h = load_two(rows.h[r] + i), dy = load_two(rows.dy[r] + i);
      const Vec minus = all(-estimate[r]);
      sums[r].take(kCentered ? add(h.a, minus) : h.a, mul(dy.a, weight.a));
      sums[r].take(kCentered ? add(h.b, minus) : h.b, mul(dy.b, weight.b));
    }
  }
  for (int r = 0; r < kRows; ++r) kept[r] = sums[r];
  return i;
}

template <bool kCentered, class T, class Scale>
void sum_strip(const GradRows<T>& rows, Scale scale, const float (&estimate)[kGradRows], int64_t begin, int64_t end,
               int64_t cols, GradSums<kCentered> (&sums)[kGradRows]) {
  int64_t i = rows.count == kGradRows ? sum_pairs<kCentered, kGradRows>(rows, scale, estimate, begin, end, cols, sums)
                                      : sum_pairs<kCentered, 1>(rows, scale, estimate, begin, end, cols, sums);
  for (int64_t n; (n = lanes_of(end - i)) > 0; i += n) {
    const Vec weight = scale.weight_part(i, n);
    for (int r = 0; r < rows.count; ++r) {
      const Vec h = load_part(rows.h[r] + i, n);
      const Vec d = kCentered ? first_lanes(add(h, all(-estimate[r])), n) : h;
      sums[r].take(d, mul(load_part(rows.dy[r] + i, n), weight));
    }
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

// dx without dsum, and what a row adds to the sums over rows.
template <bool kCentered>
Vec of_row(const Coefficients& c, Vec weight, Vec dy, Vec h, Vec* dweight, Vec* dbias) {
  const Vec d = kCentered ? add(add(h, c.first), c.second) : h;
  const Vec scaled = mul(dy, c.rstd);
  *dweight = mul_add(scaled, d, *dweight);
  if constexpr (kCentered) *dbias = add(*dbias, dy);
  return mul_add(scaled, weight, kCentered ? mul_add(d, c.slope, c.constant) : mul(d, c.slope));
}

inline void keep_two(float* sums, Two v, bool onto) {
  if (onto) {
    const Two before = load_two(sums);
    v = {add(before.a, v.a), add(before.b, v.b)};
  }
  store_two(sums, v);
}

inline void keep_part(float* sums, Vec v, int64_t n, bool onto) {
  store_part(sums, onto ? add(load_part(sums, n), v) : v, n);
}

// The second pass of `rows` over whole pairs of vectors of columns begin to end, while the first of `after` goes along:
// where they end.
template <bool kCentered, int kRows, class T, class Scale>
int64_t write_pairs(const NormBackward& args, const GradRows<T>& rows, const GradRows<T>& after, Scale scale,
                    const Coefficients (&c)[kGradRows], Share share, int64_t begin, int64_t end) {
  const bool dsum = args.dsum != nullptr;
  const bool past = past_caches<T>(args);
  int64_t i = begin;
  for (; i + 2 * kLanes <= end; i += 2 * kLanes) {
    const Two weight = scale.weight_two(rows.h[0], i);
    Two dweight{zero(), zero()}, dbias{zero(), zero()};
    for (int r = 0; r < kRows; ++r) {
      fetch<2 * kLanes>(ahead_of(after.dy[r], after.next_dy[r], begin, args.cols) + i);
      const Two h = load_two(rows.h[r] + i), dy = load_two(rows.dy[r] + i);
      Two dx{of_row<kCentered>(c[r], weight.a, dy.a, h.a, &dweight.a, &dbias.a),
             of_row<kCentered>(c[r], weight.b, dy.b, h.b, &dweight.b, &dbias.b)};
      if (dsum) {
        const Two more = load_two(rows.dsum[r] + i);
        dx = {add(dx.a, more.a), add(dx.b, more.b)};
      }
      put_two(rows.dx[r] + i, dx, past);
    }
    if (share.dweight) {
      keep_two(share.dweight + i, dweight, share.onto);
      if constexpr (kCentered) keep_two(share.dbias + i, dbias, share.onto);
    }
  }
  return i;
}

template <bool kCentered, class T, class Scale>
void write_strip(const NormBackward& args, const GradRows<T>& rows, const GradRows<T>& after, Scale scale,
                 const Coefficients (&c)[kGradRows], Share share, int64_t begin, int64_t end) {
  int64_t i = rows.count == kGradRows
                  ? write_pairs<kCentered, kGradRows>(args, rows, after, scale, c, share, begin, end)
                  : write_pairs<kCentered, 1>(args, rows, after, scale, c, share, begin, end);
  for (int64_t n; (n = lanes_of(end - i)) > 0; i += n) {
    const Vec weight = scale.weight_part(i, n);
    Vec dweight = zero(), dbias = zero();
    for (int r = 0; r < rows.count; ++r) {
      const Vec dy = load_part(rows.dy[r] + i, n), h = load_part(rows.h[r] + i, n);
      const Vec dx = of_row<kCentered>(c[r], weight, dy, h, &dweight, &dbias);
      store_part(rows.dx[r] + i, args.dsum ? add(dx, load_part(rows.dsum[r] + i, n)) : dx, n);
    }
    if (share.dweight) {
      keep_part(share.dweight + i, dweight, n, share.onto);
      if constexpr (kCentered) keep_part(share.dbias + i, dbias, n, share.onto);
    }
  }
}

// Takes rows one after another; the second pass of the last ones is due until then.
template <bool kCentered, class T, class Scale>
class GradPipe {
 public:
  GradPipe(const NormBackward& args, Scale scale, Tree* tree) : args_(args), scale_(scale), tree_(tree) {}

  // Rows of this chunk.
  void push(int64_t first, int rows, int64_t chunk) {
    First next;
    next.rows = GradRows<T>(args_, first, rows);
    for (int r = 0; kCentered && r < rows; ++r) {
      next.estimate[r] = args_.mean ? args_.mean[first + r] : estimate_mean(Only<T>{next.rows.h[r]}, args_.cols);
    }
    step(&next);
    for (int r = 0; r < rows; ++r) {
      c_[r] = coefficients<kCentered>(args_, first + r, next.estimate[r], next.totals[r]);
    }
    rows_ = next.rows;
    share_ = tree_->of(chunk);
  }

  void flush() { step(nullptr); }

 private:
  struct First {
    GradRows<T> rows;
    float estimate[kGradRows] = {};
    GradSums<kCentered> sums[kGradRows];  // since a block began
    GradTotals totals[kGradRows];

    void end_block() {
      for (int r = 0; r < rows.count; ++r) {
        sums[r].add_to(&totals[r]);
        sums[r] = {};
      }
    }
  };

  // The second pass that is due, and the first of `next`, where there are any.
  void step(First* next) {
    constexpr int64_t kWide = kStrip<T, kCentered>;
    for (int64_t i = 0, end; i < args_.cols; i = end) {
      end = i + kWide < args_.cols ? i + kWide : args_.cols;
      if (next) {
        sum_strip<kCentered>(next->rows, scale_, next->estimate, i, end, args_.cols, next->sums);
        if (end % kGradBlock == 0 || end == args_.cols) next->end_block();
      }
      if (rows_.count > 0) write_strip<kCentered>(args_, rows_, next ? next->rows : rows_, scale_, c_, share_, i, end);
    }
  }

  const NormBackward& args_;
  const Scale scale_;
  Tree* const tree_;
  GradRows<T> rows_;
  Coefficients c_[kGradRows];
  Share share_{};
};

template <bool kCentered, class T, class Scale>
void run_chunks(const NormBackward& args, Scale scale, int64_t begin, int64_t end) {
  const Chunks cut = chunks_of(args.rows);
  Tree tree(args, begin);
  GradPipe<kCentered, T, Scale> pipe(args, scale, &tree);
  for (int64_t chunk = begin; chunk < end; ++chunk) {
    int64_t row = chunk * cut.rows_each;
    const int64_t last = row + cut.rows_each < args.rows ? row + cut.rows_each : args.rows;
    for (; row < last; row += kGradRows) {
      pipe.push(row, static_cast<int>(last - row < kGradRows ? last - row : kGradRows), chunk);
    }
  }
  pipe.flush();
  tree.close();
  if (past_caches<T>(args)) stream_end();
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

}  // namespace
}  // namespace kw::cpu::KW_ISA
