// SPDX-License-Identifier: MIT
// kw_layer_norm on the CPU against long double: every type, length, in-place form and misalignment; means far larger
// than the deviations; nothing written outside.
#include "ops/norm/api/layer_norm.h"

#include "../../../cpp/cpu/rows.h"

namespace {

enum Place { kApart, kSumInResidual, kSumInX, kYInX, kBothInPlace, kPlaces };

constexpr int64_t kRows = 3;

struct Case {
  const Format* format;
  const Format* affine;  // of weight and bias; nullptr: neither
  bool weight, bias, residual;
  Place place;
  int64_t cols;
  int64_t shift;  // elements from an aligned address
  double scale, mean, eps;
  const char* isa;
};

struct Expected {
  double mean, rstd;
};

Expected moments(const Case& c, const double* h) {
  long double sum = 0, squares = 0;
  for (int64_t i = 0; i < c.cols; ++i) sum += static_cast<long double>(h[i]);
  const long double mean = sum / static_cast<long double>(c.cols);
  for (int64_t i = 0; i < c.cols; ++i) {
    const long double d = static_cast<long double>(h[i]) - mean;
    squares += d * d;
  }
  const long double variance = squares / static_cast<long double>(c.cols);
  const auto eps = static_cast<long double>(static_cast<float>(c.eps));
  return {static_cast<double>(mean), static_cast<double>(1 / sqrtl(variance + eps))};
}

void check_row(const Case& c, const double* h, const double* w, const double* b, int64_t row, const Rows& y,
               const Rows* sum, float mean, float rstd) {
  const Expected e = moments(c, h);
  CHECK(fabs(static_cast<double>(mean) - e.mean) <= 1e-7 * fabs(e.mean) + 3e-7 / e.rstd,
        "%s %s cols %ld: mean %.9g, expected %.9g", c.isa, c.format->name, static_cast<long>(c.cols),
        static_cast<double>(mean), e.mean);
  CHECK(fabs(static_cast<double>(rstd) - e.rstd) <= 1e-6 * e.rstd, "%s %s cols %ld: rstd %.9g, expected %.9g", c.isa,
        c.format->name, static_cast<long>(c.cols), static_cast<double>(rstd), e.rstd);
  for (int64_t i = 0; i < c.cols; ++i) {
    const double unit = (h[i] - e.mean) * e.rstd;
    const double value = unit * w[i] + b[i];
    // In float32: the deviation's digits, a sum of terms that may cancel.
    const double bound = 0.5 * spacing(*c.format, value) + 2e-6 * (fabs(unit * w[i]) + fabs(w[i]) + fabs(b[i]));
    const double got = y.at(row, i);
    CHECK(fabs(got - value) <= bound, "%s %s place %d affine %s cols %ld shift %ld row %ld: y[%ld] = %.9g, not %.9g",
          c.isa, c.format->name, c.place, c.affine ? c.affine->name : "none", static_cast<long>(c.cols),
          static_cast<long>(c.shift), static_cast<long>(row), static_cast<long>(i), got, value);
    CHECK(!sum || sum->at(row, i) == rounded(*c.format, h[i]), "%s %s place %d cols %ld: sum[%ld] = %.9g of %.9g",
          c.isa, c.format->name, c.place, static_cast<long>(c.cols), static_cast<long>(i), sum->at(row, i), h[i]);
  }
}

// `cols` values of a format at an address that is only element-aligned, and in double.
struct Column {
  char* all;
  char* data;
  double* value;

  Column(Random& random, const Format* format, bool there, int64_t cols, double otherwise) {
    const auto n = static_cast<size_t>(cols);
    all = static_cast<char*>(malloc((n + 3) * 4));
    value = static_cast<double*>(malloc(n * sizeof(double)));
    data = there ? all + format->size : nullptr;
    for (int64_t i = 0; i < cols; ++i) {
      value[i] = there ? rounded(*format, random.normal()) : otherwise;
      if (there) set(*format, data, i, value[i]);
    }
  }
  Column(const Column&) = delete;
  Column& operator=(const Column&) = delete;
  ~Column() {
    free(all);
    free(value);
  }
};

void check(Random& random, const Case& c) {
  Rows x(*c.format, kRows, c.cols, c.shift), residual(*c.format, kRows, c.cols, c.shift),
      apart_y(*c.format, kRows, c.cols, c.shift + 1), apart_sum(*c.format, kRows, c.cols, c.shift + 2);
  x.fill(random, c.scale, c.mean);
  residual.fill(random, c.scale);
  Rows& y = c.place == kYInX || c.place == kBothInPlace ? x : apart_y;
  Rows& sum = c.place == kSumInX ? x : c.place == kSumInResidual || c.place == kBothInPlace ? residual : apart_sum;
  const Column weight(random, c.affine, c.affine && c.weight, c.cols, 1),
      bias(random, c.affine, c.affine && c.bias, c.cols, 0);
  auto* h = static_cast<double*>(malloc(static_cast<size_t>(kRows * c.cols) * sizeof(double)));
  for (int64_t i = 0; i < kRows * c.cols; ++i) {
    const int64_t row = i / c.cols, col = i % c.cols;
    const auto value = static_cast<float>(x.at(row, col));
    h[i] = static_cast<double>(c.residual ? value + static_cast<float>(residual.at(row, col)) : value);
  }
  float mean[kRows + 1] = {-1, -1, -1, -1}, rstd[kRows + 1] = {-1, -1, -1, -1};
  const kw_status status =
      kw_layer_norm(KW_CPU, nullptr, y.data, y.stride, c.residual ? sum.data : nullptr, sum.stride, x.data, x.stride,
                    c.residual ? residual.data : nullptr, residual.stride, weight.data, bias.data, mean, rstd, kRows,
                    c.cols, c.format->dtype, c.affine ? c.affine->dtype : c.format->dtype, c.eps);
  CHECK(status == KW_OK, "%s", kw_last_error());
  for (int64_t row = 0; row < kRows; ++row) {
    check_row(c, h + row * c.cols, weight.value, bias.value, row, y, c.residual ? &sum : nullptr, mean[row], rstd[row]);
  }
  CHECK(mean[kRows] == -1.0f && rstd[kRows] == -1.0f, "mean or rstd written past its end");
  CHECK(x.intact() && residual.intact() && apart_y.intact() && apart_sum.intact(),
        "%s %s place %d cols %ld shift %ld: wrote outside", c.isa, c.format->name, c.place, static_cast<long>(c.cols),
        static_cast<long>(c.shift));
  free(h);
}

void check_lengths(const char* isa) {
  constexpr int64_t kLengths[] = {1,  2,  3,  5,  7,   8,   9,   15,  16,  17,  31,   32,   33,   47,   48,
                                  49, 63, 64, 65, 127, 128, 129, 255, 256, 257, 1000, 4095, 4096, 4097, 65535};
  Random random;
  for (const Format& format : kFormats) {
    for (const int64_t cols : kLengths) {
      for (int affine = 0; affine < (format.dtype == KW_FLOAT32 ? 2 : 3); ++affine) {
        const Format* w = affine == 0 ? nullptr : affine == 1 ? &kFormats[0] : &format;
        const int64_t shift = (cols + affine) % 4;
        check(random, {&format, w, true, true, false, kApart, cols, shift, 1.0, 0, 1e-5, isa});
        check(random, {&format, w, cols % 2 == 0, cols % 2 != 0, false, kYInX, cols, shift, 1.0, 0, 1e-5, isa});
        for (int place = 0; cols < 2000 && place < kPlaces; ++place) {
          check(random, {&format, w, true, true, true, static_cast<Place>(place), cols, shift, 1.0, 0, 1e-5, isa});
        }
      }
    }
    check(random, {&format, &format, true, true, true, kBothInPlace, 65536, 1, 1.0, 0, 1e-5, isa});
    check(random, {&format, &kFormats[0], true, true, true, kApart, 513, 3, 1e4, 0, 1e-5, isa});
    check(random, {&format, &kFormats[0], true, true, true, kApart, 513, 3, 1e-7, 0, 100.0, isa});
  }
}

// Without care for it, float32 loses the variance from mean^2 = 2^24 variance on.
void check_large_means(const char* isa) {
  Random random;
  constexpr double kMeans[] = {1e3, -1e4, 1e6};
  constexpr int64_t kLengths[] = {5, 64, 333, 4096, 65536};
  for (const double mean : kMeans) {
    for (const int64_t cols : kLengths) {
      check(random, {&kFormats[0], nullptr, false, false, false, kApart, cols, 1, 1.0, mean, 1e-5, isa});
      check(random, {&kFormats[0], &kFormats[0], true, true, true, kYInX, cols, 0, 1.0, mean, 1e-5, isa});
    }
  }
}

// A row of one value has no deviations; an outlier where the mean is estimated; what is not finite.
void check_edges(const char* isa) {
  constexpr int kCols = 5000;
  static float x[kCols], y[kCols];
  float mean, rstd;
  for (float& v : x) v = 12345.678f;
  const auto run = [&] {
    return kw_layer_norm(KW_CPU, nullptr, y, kCols, nullptr, 0, x, kCols, nullptr, 0, nullptr, nullptr, &mean, &rstd, 1,
                         kCols, KW_FLOAT32, KW_FLOAT32, 1e-5);
  };
  CHECK(run() == KW_OK, "%s", kw_last_error());
  for (const float v : y) CHECK(fabsf(v) <= 1e-6f, "%s: a constant row gives %g", isa, static_cast<double>(v));
  for (float& v : x) v = 0;
  x[0] = 1e6f;
  CHECK(run() == KW_OK, "%s", kw_last_error());
  CHECK(fabs(static_cast<double>(rstd) * 1e6 / sqrt(kCols) - 1) < 2e-4, "%s: outlier: rstd %g", isa,
        static_cast<double>(rstd));
  x[kCols - 1] = NAN;
  CHECK(run() == KW_OK, "%s", kw_last_error());
  for (const float v : y) CHECK(isnan(v), "%s: a row with a NaN gives %g", isa, static_cast<double>(v));
}

}  // namespace

int main() {
  each_isa(check_lengths);
  each_isa(check_large_means);
  each_isa(check_edges);
  if (failures) fprintf(stderr, "%d failures\n", failures);
  return failures != 0;
}
