// SPDX-License-Identifier: MIT
// What the CPU tests share: CHECK, element types by the book (in double, by another way than the library), every
// instruction set.
#pragma once

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "ops/norm/api/rms_norm.h"

#include "../failures.h"

struct Format {
  int dtype;
  const char* name;
  size_t size;
  int precision;  // bits, with the hidden one
  int lowest;     // exponent of the smallest normal number
  double largest;
};

constexpr Format kFormats[] = {
    {KW_FLOAT32, "float32", 4, 24, -126, 0x1.fffffep127},
    {KW_FLOAT16, "float16", 2, 11, -14, 65504.0},
    {KW_BFLOAT16, "bfloat16", 2, 8, -126, 0x1.fep127},
};

// The distance of neighbours around `value`.
inline double spacing(const Format& format, double value) {
  const int exponent = value == 0 ? format.lowest : ilogb(value);
  return ldexp(1.0, (exponent < format.lowest ? format.lowest : exponent) - (format.precision - 1));
}

// `value` rounded to the format, ties to even.
inline double rounded(const Format& format, double value) {
  if (!isfinite(value)) return value;
  const double step = spacing(format, value);
  const double result = nearbyint(value / step) * step;
  return fabs(result) > format.largest ? copysign(INFINITY, value) : copysign(result, value);
}

inline double from_bits16(const Format& format, uint16_t bits) {
  const int fraction = format.precision - 1;
  const int exponents = (1 << (15 - fraction)) - 1;
  const int exponent = (bits >> fraction) & exponents;
  const int mantissa = bits & ((1 << fraction) - 1);
  double size = ldexp(mantissa, format.lowest - fraction);
  if (exponent == exponents) {
    size = mantissa ? static_cast<double>(NAN) : static_cast<double>(INFINITY);
  } else if (exponent > 0) {
    size = ldexp(mantissa + (1 << fraction), format.lowest - fraction + exponent - 1);
  }
  return bits & 0x8000 ? -size : size;
}

inline double get(const Format& format, const void* p, int64_t i) {
  if (format.dtype == KW_FLOAT32) {
    float value;
    memcpy(&value, static_cast<const char*>(p) + 4 * i, 4);
    return static_cast<double>(value);
  }
  uint16_t bits;
  memcpy(&bits, static_cast<const char*>(p) + 2 * i, 2);
  return from_bits16(format, bits);
}

// Stores a value that the format has.
inline void set(const Format& format, void* p, int64_t i, double value) {
  const float single = static_cast<float>(value);
  if (format.dtype == KW_FLOAT32) {
    memcpy(static_cast<char*>(p) + 4 * i, &single, 4);
    return;
  }
  const int fraction = format.precision - 1;
  const double size = fabs(value);
  int bits;
  if (size < ldexp(1.0, format.lowest)) {
    bits = static_cast<int>(ldexp(size, fraction - format.lowest));
  } else {
    const int exponent = ilogb(size);
    bits = ((exponent - format.lowest) << fraction) + static_cast<int>(ldexp(size, fraction - exponent));
  }
  const auto all = static_cast<uint16_t>(bits | (signbit(value) ? 0x8000 : 0));
  memcpy(static_cast<char*>(p) + 2 * i, &all, 2);
}

struct Random {
  uint64_t state = 0x9e3779b97f4a7c15u;

  uint32_t bits() {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<uint32_t>(state >> 33);
  }
  // About normal, of variance 1.
  double normal() {
    double sum = 0;
    for (int i = 0; i < 6; ++i) sum += static_cast<double>(bits()) / 0x1p31;
    return (sum - 3) * 1.4142135623730951;
  }
};

// Calls test() with each instruction set that this build and this CPU have; fails where there is none.
template <class Test>
void each_isa(Test test) {
  constexpr const char* kNames[] = {"scalar", "neon", "avx2", "avx512", "amx"};
  int sets = 0;
  for (const char* name : kNames) {
    if (kw_set_option("cpu_isa", name) != KW_OK) {
      printf("%s: not here (%s)\n", name, kw_last_error());
      continue;
    }
    CHECK(strcmp(kw_cpu_isa(), name) == 0, "asked for %s, got %s", name, kw_cpu_isa());
    ++sets;
    test(name);
  }
  CHECK(sets > 0, "no instruction set runs");
  CHECK(kw_set_option("cpu_isa", "") == KW_OK, "%s", kw_last_error());
}
