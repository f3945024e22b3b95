// SPDX-License-Identifier: MIT
// Results of the norms so large that they may be stored past the caches. Wherever they begin, and however far their
// rows lie apart, they have the bits of the same rows in small calls, NaN too; nothing is written outside.
#include <kernelwright/layer_norm.h>
#include <kernelwright/rms_norm.h>

#include "check.h"

namespace {

constexpr int64_t kBytes = 8 << 20, kCols = 1040, kPart = 64;
constexpr unsigned char kSentinel = 0xa5;
constexpr uint32_t kLongNan = 0x7fffffff;    // which rounding to 16 bits would carry into the sign
constexpr int64_t kPeriod = 8191;            // of the inputs
constexpr int64_t kNanColumns[] = {17, 96};  // odd and even, of different vectors

// How far the result begins off 64 bytes, and elements between its rows.
struct Layout {
  int64_t shift, gap;
};
constexpr Layout kLayouts[] = {{0, 0}, {0, 48}, {64, 16}, {32, 48}, {4, 0}, {0, 3}};

struct Case {
  const Format* format;
  bool centered, backward;
  Layout layout;
  const char* isa;
};

struct Inputs {
  int64_t rows;
  char *x, *dy;
  float *weight, *bias;

  Inputs(const Format& f, Random& random) : rows(kBytes / (kCols * static_cast<int64_t>(f.size)) + 3) {
    const auto count = static_cast<size_t>(rows * kCols);
    x = static_cast<char*>(malloc(count * f.size)), dy = static_cast<char*>(malloc(count * f.size));
    weight = static_cast<float*>(malloc(kCols * 4)), bias = static_cast<float*>(malloc(kCols * 4));
    char* const both[] = {x, dy};
    for (int64_t i = 0; i < rows * kCols; ++i) {
      for (char* const to : both) set(f, to, i, i < kPeriod ? rounded(f, random.normal()) : get(f, to, i - kPeriod));
    }
    for (int64_t i = 0; i < kCols; ++i) {
      weight[i] = static_cast<float>(random.normal());
      bias[i] = static_cast<float>(random.normal());
    }
  }
  Inputs(const Inputs&) = delete;
  Inputs& operator=(const Inputs&) = delete;
  ~Inputs() { free(x), free(dy), free(weight), free(bias); }
};

// The result of rows `first` to `first + rows`.
void call(const Case& c, const Inputs& in, int64_t first, int64_t rows, void* out, int64_t stride) {
  const char* const x = in.x + static_cast<size_t>(first * kCols) * c.format->size;
  const char* const dy = in.dy + static_cast<size_t>(first * kCols) * c.format->size;
  kw_status status;
  if (c.backward) {
    status = c.centered
                 ? kw_layer_norm_backward(KW_CPU, nullptr, out, stride, nullptr, nullptr, dy, kCols, x, kCols, x, kCols,
                                          in.weight, nullptr, nullptr, nullptr, 0, rows, kCols, c.format->dtype,
                                          KW_FLOAT32, 1e-5)
                 : kw_rms_norm_backward(KW_CPU, nullptr, out, stride, nullptr, dy, kCols, x, kCols, x, kCols, in.weight,
                                        nullptr, nullptr, 0, rows, kCols, c.format->dtype, KW_FLOAT32, 1e-5);
  } else {
    status = c.centered ? kw_layer_norm(KW_CPU, nullptr, out, stride, nullptr, 0, x, kCols, nullptr, 0, in.weight,
                                        in.bias, nullptr, nullptr, rows, kCols, c.format->dtype, KW_FLOAT32, 1e-5)
                        : kw_rms_norm(KW_CPU, nullptr, out, stride, nullptr, 0, x, kCols, nullptr, 0, in.weight,
                                      nullptr, rows, kCols, c.format->dtype, KW_FLOAT32, 1e-5);
  }
  CHECK(status == KW_OK, "%s", kw_last_error());
}

bool untouched(const char* from, const char* to) {
  for (; from < to; ++from) {
    if (static_cast<unsigned char>(*from) != kSentinel) return false;
  }
  return true;
}

void check(const Case& c, const Inputs& in) {
  const auto size = static_cast<int64_t>(c.format->size);
  const int64_t pitch = (kCols + c.layout.gap) * size, row_bytes = kCols * size;
  const int64_t bytes = (in.rows * pitch + 255) / 64 * 64;
  char* const all = static_cast<char*>(aligned_alloc(64, static_cast<size_t>(bytes)));
  char* const out = all + c.layout.shift;
  static char part[kPart * kCols * 4];
  memset(all, kSentinel, static_cast<size_t>(bytes));
  call(c, in, 0, in.rows, out, kCols + c.layout.gap);
  bool same = true, around = untouched(all, out) && untouched(out + in.rows * pitch, all + bytes);
  for (int64_t row = 0; row < in.rows; ++row) {
    if (row % kPart == 0) call(c, in, row, in.rows - row < kPart ? in.rows - row : kPart, part, kCols);
    const char* const found = out + row * pitch;
    same &= memcmp(found, part + row % kPart * row_bytes, static_cast<size_t>(row_bytes)) == 0;
    around &= untouched(found + row_bytes, found + pitch);
    for (const int64_t column : kNanColumns) same &= c.backward || isnan(get(*c.format, found, column));
  }
  CHECK(same && around, "%s %s norm%s of %s, %ld bytes off, %ld elements between rows: %s", c.isa,
        c.centered ? "layer" : "rms", c.backward ? " backward" : "", c.format->name, static_cast<long>(c.layout.shift),
        static_cast<long>(c.layout.gap), same ? "wrote outside" : "other bits than in small calls");
  free(all);
}

void check_all(const char* isa) {
  // These store all results alike, and take long where they are emulated.
  if (strcmp(isa, "scalar") == 0 || strcmp(isa, "neon") == 0) return;
  for (const Format& format : kFormats) {
    Random random;
    const Inputs in(format, random);
    for (int kind = 0; kind < 4; ++kind) {
      const bool backward = kind >= 2;
      for (const int64_t column : kNanColumns) {
        const float one = 1;
        memcpy(in.weight + column, backward ? static_cast<const void*>(&one) : &kLongNan, sizeof one);
      }
      for (const Layout& layout : kLayouts) check({&format, kind % 2 != 0, backward, layout, isa}, in);
    }
  }
}

}  // namespace

int main() {
  each_isa(check_all);
  if (failures) fprintf(stderr, "%d failures\n", failures);
  return failures != 0;
}
