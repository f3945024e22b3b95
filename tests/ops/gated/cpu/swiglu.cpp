// SPDX-License-Identifier: MIT
// kw_swiglu and kw_swiglu_backward on the CPU against long double: every type, length, in-place form and misalignment;
// nothing written outside. Whole ranges of gates, and their ends.
#include "ops/gated/api/swiglu.h"

#include "../../../cpp/cpu/check.h"

namespace {

enum Place { kApart, kGateInPlace, kBothInPlace, kPacked, kPlaces };
constexpr const char* kPlaceNames[] = {"apart", "gate in place", "both in place", "packed"};

constexpr int64_t kRows = 3;
constexpr int64_t kPad = 5;  // elements between rows
constexpr unsigned char kSentinel = 0xa5;

// Rows of `cols` elements in a buffer of their own, `shift` elements off alignment, with sentinels around each row.
struct Rows {
  const Format* format;
  int64_t cols, stride;
  size_t bytes;
  char* all;
  char* data;

  Rows(const Format& f, int64_t columns, int64_t shift)
      : format(&f),
        cols(columns),
        stride(columns + kPad),
        bytes((static_cast<size_t>(kRows * stride + shift + kPad) * f.size + 127) / 64 * 64),
        all(static_cast<char*>(aligned_alloc(64, bytes))),
        data(all + static_cast<size_t>(shift) * f.size) {
    memset(all, kSentinel, bytes);
  }
  Rows(const Rows&) = delete;
  Rows& operator=(const Rows&) = delete;
  ~Rows() { free(all); }

  char* at(int64_t column) const { return data + static_cast<size_t>(column) * format->size; }
  void fill(Random& random, double scale) const {
    for (int64_t row = 0; row < kRows; ++row) {
      for (int64_t i = 0; i < cols; ++i)
        set(*format, data, row * stride + i, rounded(*format, random.normal() * scale));
    }
  }
  bool intact() const {
    for (const char* p = all; p < all + bytes; ++p) {
      const int64_t element = (p - data) / static_cast<int64_t>(format->size);
      const bool inside = p >= data && element / stride < kRows && element % stride < cols;
      if (!inside && static_cast<unsigned char>(*p) != kSentinel) return false;
    }
    return true;
  }
};

struct Expected {
  long double y, dgate, dup;
  long double of_y, of_dgate, of_dup;  // what the arithmetic in float32 may be off
};

// In proportion to the terms that a result is a sum of: the slope of silu passes through zero. And where exp(gate) is
// subnormal it is right to its own spacing only, and is multiplied.
Expected expected_of(double dy, double gate, double up) {
  const long double g = static_cast<long double>(gate), s = 1 / (1 + expl(-g)), rest = 1 / (1 + expl(g));
  const long double d = static_cast<long double>(dy), u = static_cast<long double>(up);
  const long double coarse = (1 + fabsl(g)) * (1 + fabsl(u)) * (1 + fabsl(d)) * 0x1p-149L, y = g * s * u,
                    dup = d * g * s;
  return {y,
          d * u * s * (1 + g * rest),
          dup,
          5e-7L * fabsl(y) + coarse,
          5e-7L * fabsl(d * u) * s * (1 + fabsl(g) * rest) + coarse,
          5e-7L * fabsl(dup) + coarse};
}

bool near(const Format& format, double got, long double value, long double off) {
  const auto expected = static_cast<double>(value);
  if (fabs(expected) > format.largest) return isinf(got) || fabs(got) >= format.largest;
  return fabs(got - expected) <= 0.501 * spacing(format, expected) + static_cast<double>(off);
}

struct Case {
  const Format* format;
  Place place;
  int64_t cols, shift;
  double scale;  // of gates
  const char* isa;
};

// Room for both forms of the inputs and the results. A packed tensor is gate, with up behind it in each row.
struct Tensors {
  Rows gate, up, dy, first, second;

  explicit Tensors(const Case& c)
      : gate(*c.format, c.place == kPacked ? 2 * c.cols : c.cols, c.shift),
        up(*c.format, c.cols, c.shift + 1),
        dy(*c.format, c.cols, c.shift + 2),
        first(*c.format, c.place == kPacked ? 2 * c.cols : c.cols, c.shift),
        second(*c.format, c.cols, c.shift + 3) {
    Random random;
    gate.fill(random, c.scale);
    up.fill(random, 1);
    dy.fill(random, 1);
  }
  bool intact() const { return gate.intact() && up.intact() && dy.intact() && first.intact() && second.intact(); }
};

struct View {
  char* data;
  int64_t stride;
};

void check_results(const Case& c, const char* what, const View& got, const long double* value, const long double* off) {
  for (int64_t i = 0; i < kRows * c.cols; ++i) {
    const int64_t row = i / c.cols, column = i % c.cols;
    const double found = get(*c.format, got.data, row * got.stride + column);
    CHECK(near(*c.format, found, value[i], off[i]), "%s %s %s cols %ld shift %ld row %ld: %s[%ld] = %.9g, not %.9Lg",
          c.isa, c.format->name, kPlaceNames[c.place], static_cast<long>(c.cols), static_cast<long>(c.shift),
          static_cast<long>(row), what, static_cast<long>(column), found, value[i]);
  }
}

void check_one(const Case& c, bool backward) {
  const Tensors t(c);
  const bool packed = c.place == kPacked;
  const View gate{t.gate.data, t.gate.stride}, dy{t.dy.data, t.dy.stride};
  const View up = packed ? View{t.gate.at(c.cols), t.gate.stride} : View{t.up.data, t.up.stride};
  View first{t.first.data, t.first.stride};
  View second = packed ? View{t.first.at(c.cols), t.first.stride} : View{t.second.data, t.second.stride};
  if (c.place == kGateInPlace || c.place == kBothInPlace) first = gate;
  if (c.place == kBothInPlace) second = up;
  const auto n = static_cast<size_t>(kRows * c.cols);
  auto* values = static_cast<long double*>(malloc(4 * n * sizeof(long double)));
  for (size_t i = 0; i < n; ++i) {
    const int64_t row = static_cast<int64_t>(i) / c.cols, column = static_cast<int64_t>(i) % c.cols;
    const Expected e = expected_of(get(*c.format, dy.data, row * dy.stride + column),
                                   get(*c.format, gate.data, row * gate.stride + column),
                                   get(*c.format, up.data, row * up.stride + column));
    values[i] = backward ? e.dgate : e.y;
    values[n + i] = backward ? e.of_dgate : e.of_y;
    values[2 * n + i] = e.dup;
    values[3 * n + i] = e.of_dup;
  }
  const kw_status status = backward ? kw_swiglu_backward(KW_CPU, nullptr, first.data, first.stride, second.data,
                                                         second.stride, dy.data, dy.stride, gate.data, gate.stride,
                                                         up.data, up.stride, kRows, c.cols, c.format->dtype)
                                    : kw_swiglu(KW_CPU, nullptr, first.data, first.stride, gate.data, gate.stride,
                                                up.data, up.stride, kRows, c.cols, c.format->dtype);
  CHECK(status == KW_OK, "%s", kw_last_error());
  check_results(c, backward ? "dgate" : "y", first, values, values + n);
  if (backward) check_results(c, "dup", second, values + 2 * n, values + 3 * n);
  CHECK(t.intact(), "%s %s %s cols %ld shift %ld: wrote outside", c.isa, c.format->name, kPlaceNames[c.place],
        static_cast<long>(c.cols), static_cast<long>(c.shift));
  free(values);
}

void check_lengths(const char* isa) {
  constexpr int64_t kLengths[] = {1,  2,  3,  5,  7,  8,  9,   15,  16,  17,  31,   32,   33,    47,
                                  48, 49, 63, 64, 65, 96, 127, 128, 129, 200, 1000, 4097, 16384, 16385};
  for (const Format& format : kFormats) {
    for (const int64_t cols : kLengths) {
      for (int place = 0; place < kPlaces; ++place) {
        const Case c{&format, static_cast<Place>(place), cols, cols % 4, 3.0, isa};
        check_one(c, false);
        check_one(c, true);
      }
    }
    constexpr double kScales[] = {1e-6, 30.0, 3000.0};
    for (const double scale : kScales) {
      check_one({&format, kApart, 513, 3, scale, isa}, false);
      check_one({&format, kApart, 513, 3, scale, isa}, true);
    }
  }
}

// Without gaps, all rows are one, and more than the parts that threads share.
void check_dense(const char* isa) {
  constexpr int64_t kCols = 1000, kMany = 200;
  static float gate[kCols * kMany], up[kCols * kMany], y[kCols * kMany + 1];
  Random random;
  for (float& value : gate) value = static_cast<float>(random.normal());
  for (float& value : up) value = static_cast<float>(random.normal());
  y[kCols * kMany] = -7.0f;
  CHECK(kw_swiglu(KW_CPU, nullptr, y, kCols, gate, kCols, up, kCols, kMany, kCols, KW_FLOAT32) == KW_OK, "%s",
        kw_last_error());
  for (int64_t i = 0; i < kCols * kMany; ++i) {
    const Expected e = expected_of(0, static_cast<double>(gate[i]), static_cast<double>(up[i]));
    CHECK(near(kFormats[0], static_cast<double>(y[i]), e.y, e.of_y), "%s: y[%ld] = %.9g", isa, static_cast<long>(i),
          static_cast<double>(y[i]));
  }
  CHECK(y[kCols * kMany] == -7.0f, "%s: wrote past the end", isa);
}

// Gates from -200 to 200 in small steps: also where exp overflows, and where the result is subnormal.
void check_range(const char* isa) {
  constexpr int kCount = 400001;
  static float gate[kCount], one[kCount], y[kCount], dgate[kCount], dup[kCount];
  for (int i = 0; i < kCount; ++i) {
    gate[i] = static_cast<float>(i - kCount / 2) * 0x1p-10f * 1.024f;
    one[i] = 1.0f;
  }
  CHECK(kw_swiglu(KW_CPU, nullptr, y, kCount, gate, kCount, one, kCount, 1, kCount, KW_FLOAT32) == KW_OK, "%s",
        kw_last_error());
  CHECK(kw_swiglu_backward(KW_CPU, nullptr, dgate, kCount, dup, kCount, one, kCount, gate, kCount, one, kCount, 1,
                           kCount, KW_FLOAT32) == KW_OK,
        "%s", kw_last_error());
  for (int i = 0; i < kCount; ++i) {
    const Expected e = expected_of(1, static_cast<double>(gate[i]), 1);
    CHECK(near(kFormats[0], static_cast<double>(y[i]), e.y, e.of_y), "%s: silu(%a) = %a, not %La", isa,
          static_cast<double>(gate[i]), static_cast<double>(y[i]), e.y);
    CHECK(near(kFormats[0], static_cast<double>(dup[i]), e.dup, e.of_dup), "%s: dup of %a is %a, not %La", isa,
          static_cast<double>(gate[i]), static_cast<double>(dup[i]), e.dup);
    CHECK(near(kFormats[0], static_cast<double>(dgate[i]), e.dgate, e.of_dgate), "%s: dgate of %a is %a, not %La", isa,
          static_cast<double>(gate[i]), static_cast<double>(dgate[i]), e.dgate);
  }
}

// Every gate that 16 bits can be, each with another up: NaNs with any payload, subnormals, and each at its place.
void check_all_short(const char* isa) {
  constexpr int kCount = 65536;
  static uint16_t gate[kCount], up[kCount], y[kCount];
  for (const Format& format : kFormats) {
    if (format.size != 2) continue;
    for (int i = 0; i < kCount; ++i) {
      gate[i] = static_cast<uint16_t>(i);
      set(format, up, i, 1.0 + i % 5);
    }
    CHECK(kw_swiglu(KW_CPU, nullptr, y, kCount, gate, kCount, up, kCount, 1, kCount, format.dtype) == KW_OK, "%s",
          kw_last_error());
    for (int i = 0; i < kCount; ++i) {
      const double g = get(format, gate, i), found = get(format, y, i);
      if (isnan(g) || isinf(g)) {
        CHECK(g > 0 ? found == g : isnan(found), "%s %s: gate %g gave %g", isa, format.name, g, found);
        continue;
      }
      const Expected e = expected_of(0, g, get(format, up, i));
      CHECK(near(format, found, e.y, e.of_y), "%s %s: of gate %a, %a, not %La", isa, format.name, g, found, e.y);
    }
  }
}

// Every gate that 16 bits can be, once beside those next to it and once among others: what is near zero and what is not
// may be computed in two ways, and the bits are the same.
void check_neighbours(const char* isa) {
  constexpr int kCount = 65536;
  static uint16_t gate[kCount], up[kCount], dy[kCount], results[2][3][kCount];
  for (const Format& format : kFormats) {
    if (format.size != 2) continue;
    for (int mixed = 0; mixed < 2; ++mixed) {
      for (int i = 0; i < kCount; ++i) {
        gate[i] = static_cast<uint16_t>(mixed ? i * 40503 : i);
        set(format, up, i, 1.0 + gate[i] % 5);
        set(format, dy, i, 2.0 - gate[i] % 7);
      }
      auto& [y, dgate, dup] = results[mixed];
      CHECK(kw_swiglu(KW_CPU, nullptr, y, kCount, gate, kCount, up, kCount, 1, kCount, format.dtype) == KW_OK, "%s",
            kw_last_error());
      CHECK(kw_swiglu_backward(KW_CPU, nullptr, dgate, kCount, dup, kCount, dy, kCount, gate, kCount, up, kCount, 1,
                               kCount, format.dtype) == KW_OK,
            "%s", kw_last_error());
    }
    for (int i = 0; i < kCount; ++i) {
      const double g = get(format, gate, i);
      for (int k = 0; k < 3; ++k) {
        const double apart = get(format, results[0][k], gate[i]), among = get(format, results[1][k], i);
        CHECK(results[0][k][gate[i]] == results[1][k][i] || (isnan(apart) && isnan(among)),
              "%s %s: result %d of gate %a is %a, and %a among other gates", isa, format.name, k, g, apart, among);
      }
    }
  }
}

// Every up that 16 bits can be, beside gates near zero.
void check_all_short_ups(const char* isa) {
  constexpr int kCount = 65536;
  static uint16_t gate[kCount], up[kCount], y[kCount];
  for (const Format& format : kFormats) {
    if (format.size != 2) continue;
    for (int i = 0; i < kCount; ++i) {
      up[i] = static_cast<uint16_t>(i);
      set(format, gate, i, i % 68 - 34);
    }
    CHECK(kw_swiglu(KW_CPU, nullptr, y, kCount, gate, kCount, up, kCount, 1, kCount, format.dtype) == KW_OK, "%s",
          kw_last_error());
    for (int i = 0; i < kCount; ++i) {
      const double g = get(format, gate, i), u = get(format, up, i), found = get(format, y, i);
      const Expected e = expected_of(0, g, u);
      const bool right = isnan(e.y) ? isnan(found) : isinf(u) ? found == g * u : near(format, found, e.y, e.of_y);
      CHECK(right, "%s %s: of gate %a and up %a, %a, not %La", isa, format.name, g, u, found, e.y);
    }
  }
}

// What is not finite comes out as the formula says: silu(-infinity) is infinity times 0. No rows, no columns: nothing.
void check_ends(const char* isa) {
  constexpr int kCount = 5;
  float gate[kCount] = {INFINITY, -INFINITY, NAN, 3e38f, -3e38f}, one[kCount] = {1, 1, 1, 1, 1};
  float y[kCount], dgate[kCount], dup[kCount];
  CHECK(kw_swiglu(KW_CPU, nullptr, y, 1, gate, 1, one, 1, kCount, 1, KW_FLOAT32) == KW_OK, "%s", kw_last_error());
  CHECK(y[0] == INFINITY && isnan(y[1]) && isnan(y[2]) && y[3] == 3e38f && y[4] == 0, "%s: %g %g %g %g %g", isa,
        static_cast<double>(y[0]), static_cast<double>(y[1]), static_cast<double>(y[2]), static_cast<double>(y[3]),
        static_cast<double>(y[4]));
  CHECK(kw_swiglu_backward(KW_CPU, nullptr, dgate, 1, dup, 1, one, 1, gate, 1, one, 1, kCount, 1, KW_FLOAT32) == KW_OK,
        "%s", kw_last_error());
  CHECK(isnan(dgate[0]) && isnan(dgate[1]) && isnan(dgate[2]) && dgate[3] == 1 && dgate[4] == 0, "%s: %g %g %g %g %g",
        isa, static_cast<double>(dgate[0]), static_cast<double>(dgate[1]), static_cast<double>(dgate[2]),
        static_cast<double>(dgate[3]), static_cast<double>(dgate[4]));
  CHECK(kw_swiglu(KW_CPU, nullptr, nullptr, 4, nullptr, 4, nullptr, 4, 0, 4, KW_FLOAT32) == KW_OK &&
            kw_swiglu(KW_CPU, nullptr, nullptr, 0, nullptr, 0, nullptr, 0, 4, 0, KW_FLOAT32) == KW_OK,
        "%s: nothing: %s", isa, kw_last_error());
}

// Each tensor has a distance of its own between rows, and each distance is once the one without gaps; then one tensor
// alone has gaps, each once.
void check_strides(const char* isa) {
  constexpr int64_t kCols = 37, kGaps[] = {0, 1, 3, 8, 2}, kMost = kCols + 8;
  static float data[5][kRows * kMost], expected[2][kCols];  // gate, up, dy, and the two results
  Random random;
  for (int turn = 0; turn < 10; ++turn) {
    int64_t stride[5];
    for (int i = 0; i < 5; ++i) stride[i] = kCols + (turn < 5 ? kGaps[(i + turn) % 5] : i == turn - 5 ? 3 : 0);
    for (int i = 0; i < 3; ++i) {
      for (float& v : data[i]) v = static_cast<float>(random.normal());
    }
    for (int backward = 0; backward < 2; ++backward) {
      const auto call = [&](float* first, float* second, int64_t row, int64_t rows) {
        const float *gate = data[0] + row * stride[0], *up = data[1] + row * stride[1], *dy = data[2] + row * stride[2];
        const kw_status status =
            backward
                ? kw_swiglu_backward(KW_CPU, nullptr, first, stride[3], second, stride[4], dy, stride[2], gate,
                                     stride[0], up, stride[1], rows, kCols, KW_FLOAT32)
                : kw_swiglu(KW_CPU, nullptr, first, stride[3], gate, stride[0], up, stride[1], rows, kCols, KW_FLOAT32);
        CHECK(status == KW_OK, "%s", kw_last_error());
      };
      call(data[3], data[4], 0, kRows);
      for (int64_t row = 0; row < kRows; ++row) {
        call(expected[0], expected[1], row, 1);
        for (int i = 0; i < 1 + backward; ++i) {
          CHECK(memcmp(expected[i], data[3 + i] + row * stride[3 + i], sizeof expected[i]) == 0,
                "%s: turn %d, row %d: result %d", isa, turn, static_cast<int>(row), i);
        }
      }
    }
  }
}

void check_refusals(const char* isa) {
  float a[8] = {}, b[8] = {}, y[8] = {};
  const auto refused = [&](kw_status status, const char* words) {
    CHECK(status == KW_ERROR_INVALID_ARGUMENT && strstr(kw_last_error(), words), "%s: status %d, %s", isa, status,
          kw_last_error());
  };
  const auto call = [&](void* out, int64_t stride, const void* gate, const void* up, int64_t rows, int64_t cols,
                        int32_t dtype) {
    return kw_swiglu(KW_CPU, nullptr, out, stride, gate, stride, up, stride, rows, cols, dtype);
  };
  refused(call(y, 4, a, b, 2, 4, KW_FLOAT64), "dtype is 3");
  refused(call(y, 4, a, b, -1, 4, KW_FLOAT32), "rows is -1");
  refused(call(y, 4, a, b, 2, -4, KW_FLOAT32), "cols is -4");
  refused(call(y, 4, a, b, INT64_MAX, 4, KW_FLOAT32), "no memory holds");
  refused(call(nullptr, 4, a, b, 2, 4, KW_FLOAT32), "kw_swiglu: y is NULL");
  refused(call(y, 4, a, nullptr, 2, 4, KW_FLOAT32), "up is NULL");
  refused(call(y, 4, reinterpret_cast<char*>(a) + 2, b, 1, 4, KW_FLOAT32), "multiple of 4");
  refused(call(y, 3, a, b, 2, 4, KW_FLOAT32), "y_stride is 3");
  refused(kw_swiglu(-2, nullptr, y, 4, a, 4, b, 4, 2, 4, KW_FLOAT32), "device is -2");
  refused(kw_swiglu_backward(KW_CPU, nullptr, y, 4, y, 4, nullptr, 4, a, 4, b, 4, 2, 4, KW_FLOAT32),
          "kw_swiglu_backward: dy is NULL");
  refused(kw_swiglu_backward(KW_CPU, nullptr, y, 3, y, 4, a, 4, a, 4, b, 4, 2, 4, KW_FLOAT32), "dgate_stride is 3");
  refused(kw_swiglu_backward(KW_CPU, nullptr, y, 4, y, -3, a, 4, a, 4, b, 4, 2, 4, KW_FLOAT32), "dup_stride is -3");
  CHECK(call(y, 0, a, b, 1, 4, KW_FLOAT32) == KW_OK, "%s: one row: %s", isa, kw_last_error());
}

}  // namespace

int main() {
  each_isa(check_lengths);
  each_isa(check_dense);
  each_isa(check_range);
  each_isa(check_all_short);
  each_isa(check_neighbours);
  each_isa(check_all_short_ups);
  each_isa(check_ends);
  each_isa(check_strides);
  each_isa(check_refusals);
  if (failures) fprintf(stderr, "%d failures\n", failures);
  return failures != 0;
}
