// SPDX-License-Identifier: MIT
// float16 and bfloat16, both ways, for all 65536 values and every tie between them, through kw_rms_norm on rows where
// the norm is 1.
#include "check.h"

namespace {

constexpr int kAll = 65536;

float next(float value, float towards) { return nextafterf(value, towards); }

// A row of ones has the norm 1, so that y is the float32 weight, rounded.
void check_encode(const char* isa, const Format& format, const float* values) {
  static uint16_t ones[kAll], y[kAll];
  for (int i = 0; i < kAll; ++i) set(format, ones, i, 1.0);
  CHECK(kw_rms_norm(KW_CPU, nullptr, y, kAll, nullptr, 0, ones, kAll, nullptr, 0, values, nullptr, 1, kAll,
                    format.dtype, KW_FLOAT32, 0.0) == KW_OK,
        "%s", kw_last_error());
  for (int i = 0; i < kAll; ++i) {
    const double expected = rounded(format, static_cast<double>(values[i])), got = get(format, y, i);
    const bool same = isnan(expected) ? isnan(got) : got == expected && signbit(got) == signbit(expected);
    CHECK(same, "%s: %a to %s is %a, expected %a", isa, static_cast<double>(values[i]), format.name, got, expected);
  }
}

// Rows of one element: 1 / rstd is its absolute value, as far as float32 can square it.
void check_decode(const char* isa, const Format& format) {
  static uint16_t x[kAll], y[kAll];
  static float rstd[kAll];
  for (int i = 0; i < kAll; ++i) x[i] = static_cast<uint16_t>(i);
  CHECK(kw_rms_norm(KW_CPU, nullptr, y, 1, nullptr, 0, x, 1, nullptr, 0, nullptr, rstd, kAll, 1, format.dtype,
                    format.dtype, 0.0) == KW_OK,
        "%s", kw_last_error());
  for (int i = 0; i < kAll; ++i) {
    const double value = get(format, x, i), got = static_cast<double>(rstd[i]);
    const bool squared = fabs(value) > 0x1p-60 && fabs(value) < 0x1p60;
    const bool right = isnan(value)   ? isnan(got)
                       : isinf(value) ? got == 0
                       : value == 0   ? isinf(got)
                                      : !squared || fabs(got * fabs(value) - 1) < 1e-6;
    CHECK(right, "%s: %s bits %04x are %a, but rstd is %a", isa, format.name, static_cast<unsigned>(i), value, got);
    const double sign = get(format, y, i);
    CHECK(!squared || isnan(value) || sign == copysign(1.0, value), "%s: %s bits %04x are %a, but y is %a", isa,
          format.name, static_cast<unsigned>(i), value, sign);
  }
}

// x + 0 comes back as sum: all values, subnormals and infinities too.
void check_round_trip(const char* isa, const Format& format) {
  static uint16_t x[kAll], zeros[kAll], sum[kAll], y[kAll];
  for (int i = 0; i < kAll; ++i) x[i] = static_cast<uint16_t>(i);
  for (int i = 0; i < kAll; ++i) zeros[i] = 0x8000;  // minus zero: x + -0 is x, signed zeros included
  CHECK(kw_rms_norm(KW_CPU, nullptr, y, kAll, sum, kAll, x, kAll, zeros, kAll, nullptr, nullptr, 1, kAll, format.dtype,
                    format.dtype, 0.0) == KW_OK,
        "%s", kw_last_error());
  for (int i = 0; i < kAll; ++i) {
    const double value = get(format, x, i);
    CHECK(isnan(value) ? isnan(get(format, sum, i)) : sum[i] == x[i], "%s: %s bits %04x came back as %04x", isa,
          format.name, static_cast<unsigned>(x[i]), static_cast<unsigned>(sum[i]));
  }
}

void check_format(const char* isa, const Format& format) {
  static float values[kAll], middles[kAll], below[kAll], above[kAll];
  for (int i = 0; i < kAll; ++i) {
    const auto bits = static_cast<uint16_t>(i);
    const double value = from_bits16(format, bits);
    values[i] = static_cast<float>(value);
    // Half way to the neighbour away from zero; for the largest number: where infinity begins.
    const double middle = isfinite(value) ? value + copysign(spacing(format, value) / 2, value) : value;
    middles[i] = static_cast<float>(middle);
    below[i] = next(middles[i], 0.0f);
    above[i] = next(middles[i], copysignf(INFINITY, middles[i]));
  }
  check_encode(isa, format, values);
  check_encode(isa, format, middles);
  check_encode(isa, format, below);
  check_encode(isa, format, above);
  check_decode(isa, format);
  check_round_trip(isa, format);
  // Each upper half with lower halves around a tie; among them NaNs that careless rounding makes numbers.
  constexpr uint32_t kLower[] = {1, 0x7fff, 0x8000, 0x8001, 0xffff};
  for (const uint32_t lower : kLower) {
    for (uint32_t i = 0; i < kAll; ++i) {
      const uint32_t bits = (i << 16) | lower;
      memcpy(&values[i], &bits, sizeof bits);
    }
    check_encode(isa, format, values);
  }
}

}  // namespace

int main() {
  each_isa([](const char* isa) {
    check_format(isa, kFormats[1]);
    check_format(isa, kFormats[2]);
  });
  if (failures) fprintf(stderr, "%d failures\n", failures);
  return failures != 0;
}
