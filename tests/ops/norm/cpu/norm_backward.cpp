// SPDX-License-Identifier: MIT
// kw_rms_norm_backward and kw_layer_norm_backward on the CPU against double: every type, length, number of rows and
// misalignment, with and without what is optional; the same bits for any number of threads; nothing written outside.
#include "ops/norm/api/layer_norm.h"
#include "ops/norm/api/rms_norm.h"

#include "../../../cpp/cpu/rows.h"

namespace {

struct Case {
  bool centered;
  const Format* format;
  const Format* weight;  // nullptr: none, and no derivatives of weights
  bool dsum, given;      // given: mean and rstd
  int64_t rows, cols, shift;
  double mean;
  const char* isa;
};

double* doubles(int64_t count) { return static_cast<double*>(calloc(static_cast<size_t>(count), sizeof(double))); }

// What the book says, and how large the terms are that make it: float32 errs by a share of those.
struct Book {
  double *dx, *dweight, *dbias, *dx_size, *dweight_size, *dbias_size;

  explicit Book(const Case& c)
      : dx(doubles(c.rows * c.cols)),
        dweight(doubles(c.cols)),
        dbias(doubles(c.cols)),
        dx_size(doubles(c.rows * c.cols)),
        dweight_size(doubles(c.cols)),
        dbias_size(doubles(c.cols)) {}
  Book(const Book&) = delete;
  Book& operator=(const Book&) = delete;
  ~Book() {
    double* const all[] = {dx, dweight, dbias, dx_size, dweight_size, dbias_size};
    for (double* each : all) free(each);
  }
};

constexpr double kEps = 1e-5;

void fill_row(const Case& c, const Rows& h, const Rows& dy, const Rows& dsum, const double* w, int64_t row, Book* book,
              float* mean, float* rstd) {
  const auto n = static_cast<double>(c.cols);
  double m = 0, squares = 0, g_mean = 0, gu_mean = 0, g_size = 0;
  for (int64_t i = 0; c.centered && i < c.cols; ++i) m += h.at(row, i) / n;
  for (int64_t i = 0; i < c.cols; ++i) squares += (h.at(row, i) - m) * (h.at(row, i) - m) / n;
  const double r = 1 / sqrt(squares + static_cast<double>(static_cast<float>(kEps)));
  for (int64_t i = 0; i < c.cols; ++i) {
    const double g = dy.at(row, i) * w[i];
    g_mean += c.centered ? g / n : 0;
    gu_mean += g * (h.at(row, i) - m) * r / n;
    g_size += fabs(g) / n;
  }
  for (int64_t i = 0; i < c.cols; ++i) {
    const double u = (h.at(row, i) - m) * r, d = dy.at(row, i), s = c.dsum ? dsum.at(row, i) : 0;
    book->dx[row * c.cols + i] = s + r * (d * w[i] - g_mean - u * gu_mean);
    book->dx_size[row * c.cols + i] = fabs(s) + r * (fabs(d * w[i]) + g_size + (1 + fabs(u)) * g_size);
    book->dweight[i] += d * u;
    book->dweight_size[i] += fabs(d) * (1 + fabs(u));
    book->dbias[i] += d;
    book->dbias_size[i] += fabs(d);
  }
  mean[row] = static_cast<float>(m);
  rstd[row] = static_cast<float>(r);
}

struct Call {
  const Case& c;
  Rows &dx, &dweight, &dbias;
  const Rows &dy, &h, &dsum, &weight;
  const float *mean, *rstd;

  kw_status run(void* workspace, int64_t bytes) const {
    const void* const w = c.weight ? weight.data : nullptr;
    void* const dw = c.weight ? dweight.data : nullptr;
    const int type = c.weight ? c.weight->dtype : c.format->dtype;
    const void* const s = c.dsum ? dsum.data : nullptr;
    const float* const r = c.given ? rstd : nullptr;
    if (!c.centered) {
      return kw_rms_norm_backward(KW_CPU, nullptr, dx.data, dx.stride, dw, dy.data, dy.stride, s, dsum.stride, h.data,
                                  h.stride, w, r, workspace, bytes, c.rows, c.cols, c.format->dtype, type, kEps);
    }
    return kw_layer_norm_backward(KW_CPU, nullptr, dx.data, dx.stride, dw, c.weight ? dbias.data : nullptr, dy.data,
                                  dy.stride, s, dsum.stride, h.data, h.stride, w, c.given ? mean : nullptr, r,
                                  workspace, bytes, c.rows, c.cols, c.format->dtype, type, kEps);
  }
};

void compare(const Case& c, const char* what, const Rows& found, const double* expected, const double* size) {
  for (int64_t i = 0; i < found.rows * found.cols; ++i) {
    const double got = found.at(i / found.cols, i % found.cols);
    CHECK(fabs(got - expected[i]) <= 0.5 * spacing(*found.format, expected[i]) + 2e-6 * size[i],
          "%s %s norm %s weight %s rows %ld cols %ld shift %ld dsum %d given %d: %s[%ld] = %.9g, not %.9g", c.isa,
          c.centered ? "layer" : "rms", c.format->name, c.weight ? c.weight->name : "none", static_cast<long>(c.rows),
          static_cast<long>(c.cols), static_cast<long>(c.shift), c.dsum, c.given, what, static_cast<long>(i), got,
          expected[i]);
  }
}

void check_threads(const Call& call, char* workspace, int64_t bytes) {
  const Case& c = call.c;
  Rows dx(*c.format, c.rows, c.cols, 0), dweight(*call.dweight.format, 1, c.cols, 0),
      dbias(*call.dbias.format, 1, c.cols, 0);
  constexpr int kCounts[] = {1, 2, 3, 8};
  for (const int count : kCounts) {
    kw_set_num_threads(count);
    memset(workspace, kSentinel, static_cast<size_t>(bytes));
    const Call again{c, dx, dweight, dbias, call.dy, call.h, call.dsum, call.weight, call.mean, call.rstd};
    CHECK(again.run(workspace, bytes) == KW_OK, "%s", kw_last_error());
    bool same = true;
    for (int64_t row = 0; row < c.rows; ++row) {
      const auto length = static_cast<size_t>(c.cols) * c.format->size;
      same &= memcmp(dx.data + static_cast<size_t>(row * dx.stride) * c.format->size,
                     call.dx.data + static_cast<size_t>(row * call.dx.stride) * c.format->size, length) == 0;
    }
    same &= memcmp(dweight.data, call.dweight.data, static_cast<size_t>(c.cols) * dweight.format->size) == 0;
    same &= memcmp(dbias.data, call.dbias.data, static_cast<size_t>(c.cols) * dbias.format->size) == 0;
    CHECK(same, "%s %s norm rows %ld cols %ld: %d threads give other bits", c.isa, c.centered ? "layer" : "rms",
          static_cast<long>(c.rows), static_cast<long>(c.cols), count);
  }
  kw_set_num_threads(0);
}

void check(Random& random, const Case& c, bool threads = false) {
  const Format& wide = c.weight ? *c.weight : *c.format;
  Rows h(*c.format, c.rows, c.cols, c.shift), dy(*c.format, c.rows, c.cols, c.shift + 1),
      dsum(*c.format, c.rows, c.cols, c.shift + 2), weight(wide, 1, c.cols, 1), dx(*c.format, c.rows, c.cols, c.shift),
      dweight(wide, 1, c.cols, 1), dbias(wide, 1, c.cols, 1);
  h.fill(random, 1.0, c.mean);
  dy.fill(random, 1.0);
  dsum.fill(random, 1.0);
  if (c.weight) weight.fill(random, 1.0);
  double* const w = doubles(c.cols);
  for (int64_t i = 0; i < c.cols; ++i) w[i] = c.weight ? weight.at(0, i) : 1.0;
  Book book(c);
  auto* mean = static_cast<float*>(calloc(static_cast<size_t>(c.rows + 1), 4));
  auto* rstd = static_cast<float*>(calloc(static_cast<size_t>(c.rows + 1), 4));
  for (int64_t row = 0; row < c.rows; ++row) fill_row(c, h, dy, dsum, w, row, &book, mean, rstd);
  int64_t bytes = -1;
  CHECK((c.centered ? kw_layer_norm_backward_workspace : kw_rms_norm_backward_workspace)(KW_CPU, c.rows, c.cols,
                                                                                         &bytes) == KW_OK,
        "%s", kw_last_error());
  auto* workspace = static_cast<char*>(aligned_alloc(64, static_cast<size_t>(bytes + 64 + 63) / 64 * 64));
  memset(workspace, kSentinel, static_cast<size_t>(bytes) + 64);
  const Call call{c, dx, dweight, dbias, dy, h, dsum, weight, mean, rstd};
  CHECK(call.run(c.weight ? workspace : nullptr, c.weight ? bytes : 0) == KW_OK, "%s", kw_last_error());
  compare(c, "dx", dx, book.dx, book.dx_size);
  if (c.weight) compare(c, "dweight", dweight, book.dweight, book.dweight_size);
  if (c.weight && c.centered) compare(c, "dbias", dbias, book.dbias, book.dbias_size);
  for (int64_t i = 0; i < 64; ++i) {
    CHECK(static_cast<unsigned char>(workspace[bytes + i]) == kSentinel, "wrote behind the workspace");
  }
  CHECK(h.intact() && dy.intact() && dsum.intact() && weight.intact() && dx.intact() && dweight.intact() &&
            dbias.intact(),
        "%s cols %ld: wrote outside", c.isa, static_cast<long>(c.cols));
  if (threads) check_threads(call, workspace, bytes);
  free(workspace);
  free(rstd);
  free(mean);
  free(w);
}

void check_lengths(const char* isa) {
  constexpr int64_t kLengths[] = {1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 64, 100, 127, 1000, 1024, 1025, 4097};
  constexpr int64_t kRows[] = {1, 3, 4, 9};
  Random random;
  for (int centered = 0; centered < 2; ++centered) {
    for (const Format& format : kFormats) {
      for (const int64_t cols : kLengths) {
        for (int weight = 0; weight < (format.dtype == KW_FLOAT32 ? 2 : 3); ++weight) {
          const Format* w = weight == 0 ? nullptr : weight == 1 ? &kFormats[0] : &format;
          for (const int64_t rows : kRows) {
            const bool odd = (rows + weight) % 2 != 0;
            check(random, {centered != 0, &format, w, odd, rows == 3, rows, cols, (cols + weight) % 4, 0, isa});
          }
        }
      }
      check(random, {centered != 0, &format, &format, true, false, 2, 65536, 1, 0, isa});
      check(random, {centered != 0, &format, &format, true, false, 701, 40, 1, 0, isa});  // chunks of several rows
    }
  }
  check(random, {true, &kFormats[0], &kFormats[0], false, false, 5, 333, 1, 1e4, isa});
  check(random, {true, &kFormats[0], &kFormats[0], false, false, 5, 8192, 1, -1e5, isa});
}

void check_bits(const char* isa) {
  Random random;
  for (int centered = 0; centered < 2; ++centered) {
    check(random, {centered != 0, &kFormats[0], &kFormats[0], true, false, 203, 515, 0, 0, isa}, true);
    check(random, {centered != 0, &kFormats[2], &kFormats[2], false, false, 64, 4096, 0, 0, isa}, true);
  }
}

// Sums over no rows are zero.
void check_no_rows(const char* isa) {
  float dweight[5], dbias[5];
  memset(dweight, kSentinel, sizeof dweight);
  memset(dbias, kSentinel, sizeof dbias);
  CHECK(kw_layer_norm_backward(KW_CPU, nullptr, nullptr, 4, dweight, dbias, nullptr, 4, nullptr, 4, nullptr, 4, nullptr,
                               nullptr, nullptr, nullptr, 0, 0, 4, KW_BFLOAT16, KW_FLOAT32, 1e-5) == KW_OK,
        "%s: %s", isa, kw_last_error());
  for (int i = 0; i < 4; ++i) CHECK(dweight[i] == 0 && dbias[i] == 0, "%s: sums over no rows", isa);
  CHECK(dweight[4] != 0 && dbias[4] != 0, "%s: wrote outside", isa);
}

}  // namespace

int main() {
  each_isa(check_lengths);
  each_isa(check_bits);
  each_isa(check_no_rows);
  if (failures) fprintf(stderr, "%d failures\n", failures);
  return failures != 0;
}
