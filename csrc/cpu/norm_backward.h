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

// Rows that are worked on together. The second pass finds most of two rows of 16 bits in the first cache; four were a
// tenth to a third slower, eight slower still. Plain C++ is for CPUs of which nothing is known, and kept small.
constexpr int kGradRows = KW_CPU_SMALL ? 1 : 2;
// Elements whose sums stay in float32.
constexpr int64_t kGradBlock = 1024;

// Of elements that are left, those that one vector takes.
inline int64_t lanes_of(int64_t left) { return left < kLanes ? left : kLanes; }

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
    // After the last row there is nothing to fetch but what is there.
    const int64_t ahead = first + 2 * kRows <= args.rows ? kRows : 0;
    for (int r = 0; r < kRows; ++r) {
      dy[r] = static_cast<const T*>(args.dy) + (first + r) * args.dy_stride;
      h[r] = static_cast<const T*>(args.h) + (first + r) * args.h_stride;
      dsum[r] = args.dsum ? static_cast<const T*>(args.dsum) + (first + r) * args.dsum_stride : nullptr;
      dx[r] = static_cast<T*>(args.dx) + (first + r) * args.dx_stride;
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
    for (; i + 2 * kLanes <= end; i += 2 * kLanes) {
      const Two weight = scale.weight_two(rows.h[0], i);
      for (int r = 0; r < kRows; ++r) {
        fetch<2 * kLanes, 2>(rows.next_h[r] + i);
        const Two h = load_two(rows.h[r] + i), dy = load_two(rows.dy[r] + i);
        const Vec minus = all(-estimate[r]);
        sums[r].take(kCentered ? add(h.a, minus) : h.a, mul(dy.a, weight.a));
        sums[r].take(kCentered ? add(h.b, minus) : h.b, mul(dy.b, weight.b));
      }
    }
    for (int64_t n; (n = lanes_of(end - i)) > 0; i += n) {
      const Vec weight = scale.weight_part(i, n);
      for (int r = 0; r < kRows; ++r) {
        const Vec h = load_part(rows.h[r] + i, n);
        const Vec d = kCentered ? first_lanes(add(h, all(-estimate[r])), n) : h;
        sums[r].take(d, mul(load_part(rows.dy[r] + i, n), weight));
      }
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

// Where sums over rows are kept; nullptr: not wanted.
struct Share {
  float* dweight;
  float* dbias;
  bool onto;  // they are added to what is there
};

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

// dx without dsum, and what a row adds to the sums over rows.
template <bool kCentered>
Vec of_row(const Coefficients& c, Vec weight, Vec dy, Vec h, Vec* dweight, Vec* dbias) {
  const Vec d = kCentered ? add(add(h, c.first), c.second) : h;
  const Vec scaled = mul(dy, c.rstd);
  *dweight = mul_add(scaled, d, *dweight);
  if constexpr (kCentered) *dbias = add(*dbias, dy);
  return mul_add(scaled, weight, kCentered ? mul_add(d, c.slope, c.constant) : mul(d, c.slope));
}

template <bool kCentered, int kRows, class T, class Scale>
void write_grads(const GradRows<T, kRows>& rows, Scale scale, const Coefficients (&c)[kRows], bool dsum, Share share,
                 int64_t cols) {
  int64_t i = 0;
  for (; i + 2 * kLanes <= cols; i += 2 * kLanes) {
    const Two weight = scale.weight_two(rows.h[0], i);
    Two dweight{zero(), zero()}, dbias{zero(), zero()};
    for (int r = 0; r < kRows; ++r) {
      fetch<2 * kLanes, 2>(rows.next_dy[r] + i);
      const Two h = load_two(rows.h[r] + i), dy = load_two(rows.dy[r] + i);
      Two dx{of_row<kCentered>(c[r], weight.a, dy.a, h.a, &dweight.a, &dbias.a),
             of_row<kCentered>(c[r], weight.b, dy.b, h.b, &dweight.b, &dbias.b)};
      if (dsum) {
        const Two more = load_two(rows.dsum[r] + i);
        dx = {add(dx.a, more.a), add(dx.b, more.b)};
      }
      store_two(rows.dx[r] + i, dx);
    }
    if (share.dweight) {
      keep_two(share.dweight + i, dweight, share.onto);
      if constexpr (kCentered) keep_two(share.dbias + i, dbias, share.onto);
    }
  }
  for (int64_t n; (n = lanes_of(cols - i)) > 0; i += n) {
    const Vec weight = scale.weight_part(i, n);
    Vec dweight = zero(), dbias = zero();
    for (int r = 0; r < kRows; ++r) {
      const Vec dy = load_part(rows.dy[r] + i, n), h = load_part(rows.h[r] + i, n);
      const Vec dx = of_row<kCentered>(c[r], weight, dy, h, &dweight, &dbias);
      store_part(rows.dx[r] + i, dsum ? add(dx, load_part(rows.dsum[r] + i, n)) : dx, n);
    }
    if (share.dweight) {
      keep_part(share.dweight + i, dweight, n, share.onto);
      if constexpr (kCentered) keep_part(share.dbias + i, dbias, n, share.onto);
    }
  }
}

// The sums over chunks that this thread keeps, in the places of the part of them that it works on.
class Tree {
 public:
  Tree(const NormBackward& args, int64_t begin)
      : args_(args),
        nodes_(args.dweight || args.dbias ? nodes_of(args) : nullptr),
        self_(this_thread()),
        begin_(begin),
        pitch_(share_pitch(args.cols)) {}

  // For the sums of this chunk.
  Share open(int64_t chunk) {
    if (!nodes_) return {};
    nodes_[chunk] = {self_, 1, static_cast<int32_t>(begin_ + used_++)};
    float* const sums = share_of(args_, nodes_[chunk].place);
    return {sums, sums + pitch_, false};
  }

  void close(int64_t chunk) {
    if (!nodes_) return;
    int64_t start = chunk;
    while (Node* left = left_of(start, nodes_[start].chunks)) {
      add_up(share_of(args_, left->place), share_of(args_, nodes_[start].place));
      --used_;
      left->chunks *= 2;
      start = left - nodes_;
    }
  }

 private:
  // The node of as many chunks that those from `start` on are added to, if this thread has made it.
  Node* left_of(int64_t start, int64_t chunks) const {
    if (start / chunks % 2 == 0) return nullptr;
    Node* const left = nodes_ + start - chunks;
    return __atomic_load_n(&left->owner, __ATOMIC_RELAXED) == self_ && left->chunks == chunks ? left : nullptr;
  }

  void add_up(float* left, const float* right) const {
    const int64_t count = args_.centered ? 2 * pitch_ : pitch_;
    for (int64_t i = 0; i < count; i += kLanes) store(left + i, add(load(left + i), load(right + i)));
  }

  const NormBackward& args_;
  Node* const nodes_;
  const void* const self_;
  const int64_t begin_, pitch_;
  int64_t used_ = 0;  // of the places from begin_ on
};

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
  Tree tree(args, begin);
  for (int64_t chunk = begin; chunk < end; ++chunk) {
    int64_t row = chunk * cut.rows_each;
    const int64_t last = row + cut.rows_each < args.rows ? row + cut.rows_each : args.rows;
    Share share = tree.open(chunk);
    for (; row + kGradRows <= last; row += kGradRows, share.onto = true) {
      run_grads<kCentered, kGradRows, T>(args, scale, row, share);
    }
    for (; row < last; ++row, share.onto = true) run_grads<kCentered, 1, T>(args, scale, row, share);
    tree.close(chunk);
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

// What is left to be added of the tree: the sums in their order, and how many additions follow each.
struct Rest {
  const float* sums[kMostChunks];
  int additions[kMostChunks];
  int count = 0;

  explicit Rest(const NormBackward& args) {
    const Node* const nodes = nodes_of(args);
    const int64_t chunks = chunks_of(args.rows).count;
    int32_t sizes[kMostChunks];
    int depth = 0;
    for (int64_t start = 0; start < chunks; start += nodes[start].chunks, ++count) {
      sums[count] = share_of(args, nodes[start].place);
      additions[count] = 0;
      sizes[depth++] = nodes[start].chunks;
      for (; depth > 1 && sizes[depth - 1] == sizes[depth - 2]; ++additions[count]) sizes[--depth - 1] *= 2;
    }
    if (count > 0) additions[count - 1] += depth - 1;
  }

  template <class Load>
  Vec total(Load load_one) const {
    Vec stack[kMostChunks];
    stack[0] = zero();  // of no rows
    int depth = 0;
    for (int i = 0; i < count; ++i) {
      stack[depth++] = load_one(sums[i]);
      for (int left = additions[i]; left > 0; --left, --depth)
        stack[depth - 2] = add(stack[depth - 2], stack[depth - 1]);
    }
    return stack[0];
  }
};

// The totals of these columns. T: as whose load_two the sums lie, but for a row's end.
template <class T, class W>
void add_shares(const Rest& rest, int64_t offset, W* out, int64_t begin, int64_t end) {
  int64_t i = begin;
  for (; i + 2 * kLanes <= end; i += 2 * kLanes) {
    const Two sum{rest.total([=](const float* sums) { return load(sums + offset + i); }),
                  rest.total([=](const float* sums) { return load(sums + offset + i + kLanes); })};
    store_two_as(static_cast<const T*>(nullptr), out + i, sum);
  }
  for (int64_t n; (n = lanes_of(end - i)) > 0; i += n) {
    store_part(out + i, rest.total([=](const float* sums) { return load_part(sums + offset + i, n); }), n);
  }
}

template <class T>
void add_shares_of(const NormBackward& args, const Rest& rest, int64_t offset, void* out, int64_t begin, int64_t end) {
  if (args.weight_dtype == args.dtype) return add_shares<T>(rest, offset, static_cast<T*>(out), begin, end);
  add_shares<T>(rest, offset, static_cast<float*>(out), begin, end);
}

inline void backward_columns(const NormBackward& args, int64_t begin, int64_t end) {
  const Rest rest(args);
  begin *= kColumnBlock;
  end = end * kColumnBlock < args.cols ? end * kColumnBlock : args.cols;
  void* const out[] = {args.dweight, args.dbias};
  for (int64_t i = 0; i < (args.centered ? 2 : 1); ++i) {
    const int64_t offset = i * share_pitch(args.cols);
    if (!out[i]) continue;
    if (args.dtype == KW_FLOAT32) {
      add_shares_of<float>(args, rest, offset, out[i], begin, end);
    } else if (args.dtype == KW_FLOAT16) {
      add_shares_of<Half>(args, rest, offset, out[i], begin, end);
    } else {
      add_shares_of<BFloat16>(args, rest, offset, out[i], begin, end);
    }
  }
}

}  // namespace
}  // namespace kw::cpu::KW_ISA
