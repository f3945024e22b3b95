// SPDX-License-Identifier: MIT
// Products by the matrix unit: every number of row groups, several spans, blocks that cross rows, last tiles that are
// not full, against double; and what the unit would get wrong comes out as without it, bit for bit.
#include "ops/four_bit/api/matmul_4bit.h"

#include "../../../cpp/cpu/check.h"
#include "ops/four_bit/values.h"

namespace {

constexpr float kValues[2][16] = {{KW_NF4_VALUES}, {KW_FP4_VALUES}};
constexpr const Format& kFormat = kFormats[2];
static_assert(kFormats[2].dtype == KW_BFLOAT16, "the unit multiplies bfloat16");

struct Sizes {
  int64_t m, n, k;
  int32_t blocksize, type;
};

constexpr int64_t kMost = 80 * 1088;

uint16_t x[kMost], y[2][kMost];
uint8_t packed[kMost / 2];
float absmax[kMost / 32];
alignas(16) float workspace[80 * 1152];

void fill(const Sizes& s, Random& random) {
  for (int64_t i = 0; i < s.m * s.k; ++i) set(kFormat, x, i, rounded(kFormat, random.normal()));
  for (int64_t i = 0; i < s.n * s.k / 2; ++i) packed[i] = static_cast<uint8_t>(fabs(random.normal()) * 1e6);
  for (int64_t i = 0; i * s.blocksize < s.n * s.k; ++i) absmax[i] = static_cast<float>(0.1 + fabs(random.normal()));
}

void multiply(const Sizes& s, uint16_t* to) {
  memset(to, 0xa5, sizeof y[0]);
  int64_t bytes = 0;
  CHECK(kw_matmul_4bit_workspace(KW_CPU, s.m, s.n, s.k, s.blocksize, KW_BFLOAT16, &bytes) == KW_OK &&
            bytes <= static_cast<int64_t>(sizeof workspace),
        "%ld bytes: %s", static_cast<long>(bytes), kw_last_error());
  CHECK(kw_matmul_4bit(KW_CPU, nullptr, to, s.n, x, s.k, packed, absmax, nullptr, nullptr, nullptr, nullptr, nullptr,
                       workspace, bytes, s.m, s.n, s.k, s.blocksize, s.type, KW_BFLOAT16) == KW_OK,
        "%s", kw_last_error());
}

void check_sums(const Sizes& s) {
  Random random;
  fill(s, random);
  multiply(s, y[0]);
  for (int64_t m = 0; m < s.m; ++m) {
    for (int64_t n = 0; n < s.n; ++n) {
      double sum = 0, all = 0;
      for (int64_t i = 0; i < s.k; ++i) {
        const int64_t at = n * s.k + i;
        const float value = kValues[s.type][packed[at / 2] >> (at % 2 ? 0 : 4) & 15];
        const double term =
            get(kFormat, x, m * s.k + i) * static_cast<double>(value) * static_cast<double>(absmax[at / s.blocksize]);
        sum += term;
        all += fabs(term);
      }
      // Half a unit of the result; of the terms, 2^-16 that an element of the weight loses, and their sum's rounding.
      const double got = get(kFormat, y[0], m * s.n + n);
      const double off = 0.501 * spacing(kFormat, sum) + all * (0x1p-16 + static_cast<double>(s.k) * 0x1p-25);
      CHECK(fabs(got - sum) <= off, "%s %ldx%ldx%ld blocks of %d: [%ld, %ld] = %.9g, not %.9g", kw_cpu_isa(),
            static_cast<long>(s.m), static_cast<long>(s.n), static_cast<long>(s.k), static_cast<int>(s.blocksize),
            static_cast<long>(m), static_cast<long>(n), got, sum);
    }
  }
  CHECK(y[0][s.m * s.n] == 0xa5a5, "wrote behind the last row");
}

void check_products(const char*) {
  constexpr Sizes kSizes[] = {{5, 18, 32, 32, KW_NF4},    {9, 5, 288, 64, KW_FP4},    {16, 33, 544, 128, KW_NF4},
                              {17, 16, 1088, 64, KW_NF4}, {32, 40, 256, 32, KW_FP4},  {33, 17, 96, 4096, KW_NF4},
                              {48, 31, 320, 64, KW_NF4},  {49, 20, 800, 256, KW_FP4}, {64, 15, 512, 64, KW_NF4},
                              {70, 19, 160, 64, KW_NF4}};
  for (const Sizes& s : kSizes) check_sums(s);
}

// The usual way has an infinity where the unit makes NaN of it, or loses subnormal numbers.
void check_odd() {
  constexpr Sizes s = {20, 24, 320, 64, KW_NF4};
  constexpr float kScales[] = {0x1p-130f, 0x1p-95f, 0x1p110f, INFINITY, NAN};
  constexpr uint16_t kElements[] = {0x7f80, 0xff80, 0x7fc0, 0x7e80};  // infinities, NaN, 2^126
  Random random;
  for (int i = 0; i < 9; ++i) {
    fill(s, random);
    if (i < 5) {
      for (int block = i; block < s.n * s.k / s.blocksize; block += 7) absmax[block] = kScales[i];
    } else {
      x[s.k * 3 + 17] = kElements[i - 5];
    }
    CHECK(kw_set_option("cpu_isa", "avx512") == KW_OK, "%s", kw_last_error());
    multiply(s, y[0]);
    CHECK(kw_set_option("cpu_isa", "amx") == KW_OK, "%s", kw_last_error());
    multiply(s, y[1]);
    CHECK(memcmp(y[0], y[1], sizeof y[0]) == 0, "odd number %d: the matrix unit gives other results", i);
  }
}

}  // namespace

int main() {
  each_isa(check_products);
  if (kw_set_option("cpu_isa", "amx") == KW_OK) check_odd();
  if (failures) fprintf(stderr, "%d failures\n", failures);
  return failures != 0;
}
