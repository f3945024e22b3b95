// SPDX-License-Identifier: MIT
#include "cpu/elementwise.h"

namespace kw::cpu::KW_ISA {
namespace {

struct LeakyRelu {
  static constexpr int kInputs = 1, kOutputs = 1;
  static void apply(const Vec* in, Vec* out, const Vec* number) {
    out[0] = where_negative(in[0], mul(number[0], in[0]), in[0]);
  }
};

}  // namespace
}  // namespace kw::cpu::KW_ISA

KW_CPU_ELEMENTWISE(leaky_relu, LeakyRelu)
