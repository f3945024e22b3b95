// SPDX-License-Identifier: MIT
// Sums of products of bytes in plain C++: compilers know this form, two products of 16 bits an instruction and lane.
// Included by matmul_int8.cpp alone.
#pragma once

namespace kw::cpu::KW_ISA {
namespace {

constexpr bool kByteProducts = false;

template <int kM, int kN>
void byte_products(const ByteProduct&, int64_t, int64_t, const int32_t*, int32_t (&)[kM][kN]) {}

inline int32_t offset_of_row(const int8_t*, int64_t) { return 0; }

}  // namespace
}  // namespace kw::cpu::KW_ISA
