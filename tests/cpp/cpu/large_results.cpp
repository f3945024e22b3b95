// SPDX-License-Identifier: MIT
// Results of the norms and of swiglu so large that their stores may be non-temporal. Wherever they begin, and however
// far their rows lie apart, they have the bits of the same rows in small calls, NaN too; nothing is written outside.
#include "ops/gated/api/swiglu.h"
#include "ops/norm/api/layer_norm.h"
#include "ops/norm/api/rms_norm.h"

#include "check.h"

namespace {

constexpr int64_t kBytes = 8 << 20, kCols = 1040, kPart = 64;
constexpr unsigned char kSentinel = 0xa5;
constexpr uint32_t kLongNan = 0x7fffffff;    // which rounding to 16 bits would carry into the sign
constexpr int64_t kPeriod = 8191;            // of the inputs
constexpr int64_t kNanColumns[] = {17, 96};  // odd and even, of different vectors

// How far the result begins off 64 bytes, and elements between its rows; how much farther off a second one begins.
struct Layout {
  int64_t shift, gap, second;
};
constexpr Layout kLayouts[] = {{0, 0, 0}, {0, 48, 0}, {64, 16, 0}, {32, 48, 32}, {4, 0, 0}, {0, 3, 0}, {0, 48, 4}};

enum Op { kRms, kLayer, kSwiglu };
constexpr const char* kNames[] = {"rms_norm", "layer_norm", "swiglu"};

struct Case {
  const Format* format;
  Op op;
  bool backward;
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
    memset(dy + static_cast<size_t>(5 * kCols + 7) * f.size, 0xff, f.size);  // NaN
    for (int64_t i = 0; i < kCols; ++i) {
      weight[i] = static_cast<float>(random.normal());
      bias[i] = static_cast<float>(random.normal());
    }
  }
  Inputs(const Inputs&) = delete;
  Inputs& operator=(const Inputs&) = delete;
  ~Inputs() { free(x), free(dy), free(weight), free(bias); }
};

// The result of rows `first` to `first + rows`; and swiglu's second one, where there is one.
void call(const Case& c, const Inputs& in, int64_t first, int64_t rows, void* out, void* second, int64_t stride) {
  const char* const x = in.x + static_cast<size_t>(first * kCols) * c.format->size;
  const char* const dy = in.dy + static_cast<size_t>(first * kCols) * c.format->size;
  const int type = c.format->dtype;
  kw_status status = KW_ERROR_UNSUPPORTED;
  if (c.op == kSwiglu) {
    status = c.backward ? kw_swiglu_backward(KW_CPU, nullptr, out, stride, second, stride, dy, kCols, x, kCols, dy,
                                             kCols, rows, kCols, type)
                        : kw_swiglu(KW_CPU, nullptr, out, stride, x, kCols, dy, kCols, rows, kCols, type);
  } else if (c.op == kRms) {
    status = c.backward ? kw_rms_norm_backward(KW_CPU, nullptr, out, stride, nullptr, dy, kCols, x, kCols, x, kCols,
                                               in.weight, nullptr, nullptr, 0, rows, kCols, type, KW_FLOAT32, 1e-5)
                        : kw_rms_norm(KW_CPU, nullptr, out, stride, nullptr, 0, x, kCols, nullptr, 0, in.weight,
                                      nullptr, rows, kCols, type, KW_FLOAT32, 1e-5);
  } else {
    status = c.backward
                 ? kw_layer_norm_backward(KW_CPU, nullptr, out, stride, nullptr, nullptr, dy, kCols, x, kCols, x, kCols,
                                          in.weight, nullptr, nullptr, nullptr, 0, rows, kCols, type, KW_FLOAT32, 1e-5)
                 : kw_layer_norm(KW_CPU, nullptr, out, stride, nullptr, 0, x, kCols, nullptr, 0, in.weight, in.bias,
                                 nullptr, nullptr, rows, kCols, type, KW_FLOAT32, 1e-5);
  }
  CHECK(status == KW_OK, "%s", kw_last_error());
}

bool untouched(const char* from, const char* to) {
  for (; from < to; ++from) {
    if (static_cast<unsigned char>(*from) != kSentinel) return false;
  }
  return true;
}

// Both results of a call, one behind the other, with room around them.
struct Results {
  int64_t bytes;
  char* all;
  char* data[2];

  explicit Results(int64_t matrix, int64_t shift = 0, int64_t second = 0) : bytes((matrix + 191) / 64 * 64) {
    all = static_cast<char*>(aligned_alloc(64, static_cast<size_t>(2 * bytes + 64)));
    memset(all, kSentinel, static_cast<size_t>(2 * bytes + 64));
    data[0] = all + shift, data[1] = all + bytes + shift + second;
  }
  Results(const Results&) = delete;
  Results& operator=(const Results&) = delete;
  ~Results() { free(all); }
};

void check(const Case& c, const Inputs& in) {
  const auto size = static_cast<int64_t>(c.format->size);
  const int64_t pitch = (kCols + c.layout.gap) * size, row_bytes = kCols * size;
  const Results found(in.rows * pitch, c.layout.shift, c.layout.second), part(kPart * row_bytes);
  const bool two = c.op == kSwiglu && c.backward;
  call(c, in, 0, in.rows, found.data[0], found.data[1], kCols + c.layout.gap);
  bool same = true, around = untouched(found.all, found.data[0]);
  for (int64_t row = 0; row < in.rows; ++row) {
    const int64_t left = in.rows - row;
    if (row % kPart == 0) call(c, in, row, left < kPart ? left : kPart, part.data[0], part.data[1], kCols);
    for (int i = 0; i < (two ? 2 : 1); ++i) {
      const char* const at = found.data[i] + row * pitch;
      same &= memcmp(at, part.data[i] + row % kPart * row_bytes, static_cast<size_t>(row_bytes)) == 0;
      around &= untouched(at + row_bytes, at + pitch);
    }
    for (const int64_t column : kNanColumns) {
      same &= c.backward || c.op == kSwiglu || isnan(get(*c.format, found.data[0], row * pitch / size + column));
    }
  }
  around &= untouched(found.data[0] + in.rows * pitch, two ? found.data[1] : found.all + 2 * found.bytes + 64);
  around &= !two || untouched(found.data[1] + in.rows * pitch, found.all + 2 * found.bytes + 64);
  CHECK(same && around, "%s %s%s of %s, %ld bytes off, %ld elements between rows: %s", c.isa, kNames[c.op],
        c.backward ? " backward" : "", c.format->name, static_cast<long>(c.layout.shift),
        static_cast<long>(c.layout.gap), same ? "wrote outside" : "other bits than in small calls");
}

void check_all(const char* isa) {
  // These store all results alike, and take long where they are emulated.
  if (strcmp(isa, "scalar") == 0 || strcmp(isa, "neon") == 0) return;
  constexpr Op kOps[] = {kRms, kLayer, kSwiglu};
  for (const Format& format : kFormats) {
    Random random;
    const Inputs in(format, random);
    for (int backward = 0; backward < 2; ++backward) {
      for (const int64_t column : kNanColumns) {
        const float one = 1;
        memcpy(in.weight + column, backward ? static_cast<const void*>(&one) : &kLongNan, sizeof one);
      }
      for (const Op op : kOps) {
        for (const Layout& layout : kLayouts) check({&format, op, backward != 0, layout, isa}, in);
      }
    }
  }
}

}  // namespace

int main() {
  each_isa(check_all);
  if (failures) fprintf(stderr, "%d failures\n", failures);
  return failures != 0;
}
