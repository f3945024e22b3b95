// SPDX-License-Identifier: MIT
// The functions of csrc/cpu/simd.h that compute, against double: compiled once for each instruction set, as an op is.
#include "cpu/isa.h"
#include "cpu/simd.h"

#if KW_CPU_BASELINE
#include <math.h>

#include "../cpu/check.h"
#endif

namespace kw::cpu {

// Six arrays of `count` floats.
struct Job {
  const float* in;
  float* exp;
  float* exp_short;
  float* reciprocal;
  float* minus;  // exp_short(-v), by the function for that where there is one
  float* and_one;
};

KW_CPU_RANGE(simd_functions)

namespace KW_ISA {

void simd_functions(const void* context, int64_t begin, int64_t end) {
  const Job& job = *static_cast<const Job*>(context);
  for (int64_t i = begin; i < end; i += kLanes) {
    const Vec v = load(job.in + i);
    store(job.exp + i, exp(v));
    store(job.exp_short + i, exp_short(v));
    store(job.reciprocal + i, reciprocal(v));
#ifdef KW_SIMD_EXP_MINUS
    store(job.minus + i, exp_minus(v));
    store(job.and_one + i, exp_minus_and_one(v));
#else
    const Vec minus = exp_short(mul(v, all(-1.0f)));
    store(job.minus + i, minus);
    store(job.and_one + i, add(minus, all(1.0f)));
#endif
  }
}

}  // namespace KW_ISA
}  // namespace kw::cpu

#if KW_CPU_BASELINE

namespace {

constexpr int kBatch = 4096;

float of_bits(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

// In units in the last place of the right result.
double error_of(float got, double expected) {
  const double largest = kFormats[0].largest * (1 + 0x1p-25);
  if (isnan(expected)) return isnan(got) ? 0 : INFINITY;
  if (expected > largest) return isinf(got) && got > 0 ? 0 : INFINITY;
  return fabs(static_cast<double>(got) - expected) / spacing(kFormats[0], expected);
}

void check_batch(const char* isa, const float* in, double* worst) {
  static float exps[kBatch], shorts[kBatch], reciprocals[kBatch], minus[kBatch], and_one[kBatch];
  const kw::cpu::Job job{in, exps, shorts, reciprocals, minus, and_one};
  kw::cpu::picked_simd_functions()(&job, 0, kBatch);
  for (int i = 0; i < kBatch; ++i) {
    const auto x = static_cast<double>(in[i]), size = fabs(x);
    const double error = error_of(exps[i], exp(x));
    worst[0] = error > worst[0] ? error : worst[0];
    CHECK(error <= 2, "%s: exp(%a) is %a, expected %a: %.2f units off", isa, x, static_cast<double>(exps[i]), exp(x),
          error);
    if (!(x < -105 || x > 88.5)) {
      const double off = error_of(shorts[i], exp(x));
      worst[2] = off > worst[2] ? off : worst[2];
      CHECK(off <= 8, "%s: exp_short(%a) is %a: %.2f units off", isa, x, static_cast<double>(shorts[i]), off);
    }
    if (!(x < -87 || x > 105)) {
      const double off = error_of(minus[i], exp(-x)), one_off = error_of(and_one[i], 1 + exp(-x));
      CHECK(off <= 8 && one_off <= 8, "%s: exp(-%a) is %a, and one more %a: %.2f and %.2f units off", isa, x,
            static_cast<double>(minus[i]), static_cast<double>(and_one[i]), off, one_off);
    }
    if (!(size >= 0x1p-100 && size <= 0x1p100)) continue;
    const double inverse = error_of(reciprocals[i], 1 / x);
    worst[1] = inverse > worst[1] ? inverse : worst[1];
    CHECK(inverse <= 2, "%s: 1 / %a is %a: %.2f units off", isa, x, static_cast<double>(reciprocals[i]), inverse);
  }
}

// Every 509th float of all there are, then the ends, each with its neighbours.
void check_functions(const char* isa) {
  static float in[kBatch];
  double worst[3] = {};
  int filled = 0;
  for (uint64_t bits = 0; bits <= UINT32_MAX; bits += 509) {
    in[filled++] = of_bits(static_cast<uint32_t>(bits));
    if (filled < kBatch) continue;
    check_batch(isa, in, worst);
    filled = 0;
  }
  constexpr float kEnds[] = {0.0f,     -0.0f,   INFINITY, -INFINITY,   NAN,          -NAN,     88.7228394f, 88.7228317f,
                             88.5f,    -87.33f, -87.34f,  -103.27f,    -103.97f,     -103.98f, -104.0f,     -105.0f,
                             -105.01f, 89.0f,   89.01f,   0.34657359f, -0.34657359f, 1.0f,     2.0f,        3.4e38f};
  for (int i = 0; i < kBatch; ++i) {
    const float end = kEnds[static_cast<size_t>(i) % (sizeof kEnds / sizeof kEnds[0])];
    in[i] = i % 3 == 0 ? end : nextafterf(end, i % 3 == 1 ? INFINITY : -INFINITY);
  }
  check_batch(isa, in, worst);
  printf("%s: exp %.2f, exp_short %.2f, reciprocal %.2f units in the last place at most\n", isa, worst[0], worst[2],
         worst[1]);
}

}  // namespace

int main() {
  each_isa(check_functions);
  if (failures) fprintf(stderr, "%d failures\n", failures);
  return failures != 0;
}

#endif
