// SPDX-License-Identifier: MIT
// Squared ReLU of one tensor times another, and its derivatives, on the CPU.
#include "cpu/elementwise.h"

namespace kw::cpu::KW_ISA {
namespace {

Vec positive_of(Vec gate) { return within(gate, 0.0f, __builtin_inff()); }

struct Relu2Gated {
  static constexpr int kInputs = 2, kOutputs = 1;
  static void apply(const Vec* in, Vec* out, const Vec*) {
    const Vec positive = positive_of(in[0]);
    out[0] = mul(mul(positive, positive), in[1]);
  }
};

struct Relu2GatedBackward {
  static constexpr int kInputs = 3, kOutputs = 2;
  static void apply(const Vec* in, Vec* out, const Vec*) {
    const Vec dy = in[0], positive = positive_of(in[1]);
    out[0] = mul(mul(all(2.0f), positive), mul(dy, in[2]));
    out[1] = mul(dy, mul(positive, positive));
  }
};

}  // namespace
}  // namespace kw::cpu::KW_ISA

KW_CPU_ELEMENTWISE(relu2_gated, Relu2Gated)
KW_CPU_ELEMENTWISE(relu2_gated_backward, Relu2GatedBackward)
