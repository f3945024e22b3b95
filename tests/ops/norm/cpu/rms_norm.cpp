// SPDX-License-Identifier: MIT
// kw_rms_norm on the CPU against long double: every type, length, in-place form and misalignment; nothing written
// outside.
#include "../../../cpp/cpu/rows.h"

namespace {

enum Place { kApart, kSumInResidual, kSumInX, kYInX, kBothInPlace, kPlaces };
constexpr const char* kPlaceNames[] = {"apart", "sum in residual", "sum in x", "y in x", "y in x, sum in residual"};

constexpr int64_t kRows = 3;

struct Case {
  const Format* format;
  const Format* weight;  // nullptr: none
  bool residual;
  Place place;
  int64_t cols;
  int64_t shift;  // elements from an aligned address
  double scale, eps;
  const char* isa;
};

void check_row(const Case& c, const double* h, const double* w, int64_t row, const Rows& y, const Rows* sum,
               float rstd) {
  long double squares = 0;
  for (int64_t i = 0; i < c.cols; ++i) squares += static_cast<long double>(h[i]) * static_cast<long double>(h[i]);
  const auto expected = static_cast<double>(
      1 / sqrtl(squares / static_cast<long double>(c.cols) + static_cast<long double>(static_cast<float>(c.eps))));
  CHECK(fabs(static_cast<double>(rstd) - expected) <= 3e-7 * expected, "%s %s cols %ld: rstd %.9g, expected %.9g",
        c.isa, c.format->name, static_cast<long>(c.cols), static_cast<double>(rstd), expected);
  for (int64_t i = 0; i < c.cols; ++i) {
    const double value = h[i] * expected * w[i];
    const double bound = 0.5 * spacing(*c.format, value) + 5e-7 * fabs(value);
    const double got = y.at(row, i);
    CHECK(fabs(got - value) <= bound, "%s %s %s weight %s cols %ld shift %ld row %ld: y[%ld] = %.9g, expected %.9g",
          c.isa, c.format->name, kPlaceNames[c.place], c.weight ? c.weight->name : "none", static_cast<long>(c.cols),
          static_cast<long>(c.shift), static_cast<long>(row), static_cast<long>(i), got, value);
    CHECK(!sum || sum->at(row, i) == rounded(*c.format, h[i]), "%s %s %s cols %ld: sum[%ld] = %.9g of %.9g", c.isa,
          c.format->name, kPlaceNames[c.place], static_cast<long>(c.cols), static_cast<long>(i), sum->at(row, i), h[i]);
  }
}

void check(const Case& c) {
  Random random;
  Rows x(*c.format, kRows, c.cols, c.shift), residual(*c.format, kRows, c.cols, c.shift),
      apart_y(*c.format, kRows, c.cols, c.shift + 1), apart_sum(*c.format, kRows, c.cols, c.shift + 2);
  x.fill(random, c.scale);
  residual.fill(random, c.scale);
  Rows& y = c.place == kYInX || c.place == kBothInPlace ? x : apart_y;
  Rows& sum = c.place == kSumInX ? x : c.place == kSumInResidual || c.place == kBothInPlace ? residual : apart_sum;
  const auto n = static_cast<size_t>(c.cols);
  auto* h = static_cast<double*>(malloc(kRows * n * sizeof(double)));
  auto* w = static_cast<double*>(malloc(n * sizeof(double)));
  char* weight = static_cast<char*>(malloc((n + 3) * 4)) + (c.weight ? c.weight->size : 0);
  for (int64_t i = 0; i < kRows * c.cols; ++i) {
    const int64_t row = i / c.cols, col = i % c.cols;
    const auto value = static_cast<float>(x.at(row, col));
    h[i] = static_cast<double>(c.residual ? value + static_cast<float>(residual.at(row, col)) : value);
  }
  for (int64_t i = 0; i < c.cols; ++i) {
    w[i] = c.weight ? rounded(*c.weight, random.normal()) : 1.0;
    if (c.weight) set(*c.weight, weight, i, w[i]);
  }
  float rstd[kRows + 1] = {-1, -1, -1, -1};
  const kw_status status =
      kw_rms_norm(KW_CPU, nullptr, y.data, y.stride, c.residual ? sum.data : nullptr, sum.stride, x.data, x.stride,
                  c.residual ? residual.data : nullptr, residual.stride, c.weight ? weight : nullptr, rstd, kRows,
                  c.cols, c.format->dtype, c.weight ? c.weight->dtype : c.format->dtype, c.eps);
  CHECK(status == KW_OK, "%s", kw_last_error());
  for (int64_t row = 0; row < kRows; ++row)
    check_row(c, h + row * c.cols, w, row, y, c.residual ? &sum : nullptr, rstd[row]);
  CHECK(rstd[kRows] == -1.0f, "rstd written past its end");
  CHECK(x.intact() && residual.intact() && apart_y.intact() && apart_sum.intact(),
        "%s %s %s cols %ld shift %ld: wrote outside", c.isa, c.format->name, kPlaceNames[c.place],
        static_cast<long>(c.cols), static_cast<long>(c.shift));
  free(weight - (c.weight ? c.weight->size : 0));
  free(w);
  free(h);
}

void check_lengths(const char* isa) {
  constexpr int64_t kLengths[] = {1,  2,  3,  5,  7,   8,   9,   15,  16,   17,   31,   32,   33,   47,    48,   49,
                                  63, 64, 65, 96, 127, 128, 129, 200, 1000, 4095, 4096, 4097, 8209, 65535, 65536};
  for (const Format& format : kFormats) {
    for (const int64_t cols : kLengths) {
      for (int weight = 0; weight < (format.dtype == KW_FLOAT32 ? 2 : 3); ++weight) {
        const Format* w = weight == 0 ? nullptr : weight == 1 ? &kFormats[0] : &format;
        const int64_t shift = (cols + weight) % 4;
        check({&format, w, false, kApart, cols, shift, 1.0, 1e-6, isa});
        check({&format, w, false, kYInX, cols, shift, 1.0, 1e-6, isa});
        for (int place = 0; cols < 5000 && place < kPlaces; ++place) {
          check({&format, w, true, static_cast<Place>(place), cols, shift, 1.0, 1e-6, isa});
        }
      }
    }
    check({&format, &format, true, kBothInPlace, 65536, 1, 1.0, 1e-6, isa});
    check({&format, &kFormats[0], true, kApart, 513, 3, 1e4, 1e-6, isa});    // large
    check({&format, &kFormats[0], true, kApart, 513, 3, 1e-7, 0.0, isa});    // float16: subnormal
    check({&format, &kFormats[0], true, kApart, 513, 3, 1e-7, 100.0, isa});  // the result too
  }
}

// What has no rows is not touched; what is not finite comes out as IEEE says.
void check_edges(const char* isa) {
  float y[20], x[20] = {};
  CHECK(kw_rms_norm(KW_CPU, nullptr, y, 4, nullptr, 0, x, 4, nullptr, 0, nullptr, nullptr, 0, 4, KW_FLOAT32, KW_FLOAT32,
                    1e-6) == KW_OK,
        "%s: no rows: %s", isa, kw_last_error());
  constexpr int64_t kTooMany[] = {INT64_MAX, INT64_MAX / 4};
  for (const int64_t rows : kTooMany) {
    CHECK(kw_rms_norm(KW_CPU, nullptr, y, 4, nullptr, 0, x, 0, nullptr, 0, nullptr, nullptr, rows, 4, KW_FLOAT32,
                      KW_FLOAT32, 1e-6) == KW_ERROR_INVALID_ARGUMENT,
          "%s: %lld rows were taken", isa, static_cast<long long>(rows));
  }
  x[3] = INFINITY;
  x[10] = NAN;
  CHECK(kw_rms_norm(KW_CPU, nullptr, y, 5, nullptr, 0, x, 5, nullptr, 0, nullptr, nullptr, 4, 5, KW_FLOAT32, KW_FLOAT32,
                    1e-6) == KW_OK,
        "%s: %s", isa, kw_last_error());
  for (int i = 0; i < 20; ++i) {
    const bool nan = i == 3 || i / 5 == 2;  // infinity times zero; a row with a NaN
    CHECK(nan ? isnan(y[i]) : y[i] == 0.0f, "%s: y[%d] = %g", isa, i, static_cast<double>(y[i]));
  }
}

}  // namespace

int main() {
  each_isa(check_lengths);
  each_isa(check_edges);
  if (failures) fprintf(stderr, "%d failures\n", failures);
  return failures != 0;
}
