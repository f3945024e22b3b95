// SPDX-License-Identifier: MIT
// Rope: pairs of a row's elements are turned by its place. Included once for each instruction set.
#pragma once

#include "ops/attention/cpu/problem.h"
#include "ops/attention/cpu/product.h"

namespace kw::cpu::KW_ISA {
namespace {

template <class T>
float number_at(const T* p) {
  float lane[kLanes];
  store(lane, load_part(p, 1));
  return lane[0];
}

template <class T>
void turn(const AttentionProblem& a, int64_t place, float* row) {
  const int64_t at = (place < a.places ? place : a.places - 1) * a.rope_row;
  for (int64_t i = 0; i < a.pairs; ++i) {
    const float cos = number_at(static_cast<const T*>(a.cos) + at + i);
    const float sin = number_at(static_cast<const T*>(a.sin) + at + i);
    float& x = row[a.interleaved ? 2 * i : i];
    float& y = row[a.interleaved ? 2 * i + 1 : i + a.pairs];
    const float turned = x * cos - y * sin;
    y = y * cos + x * sin;
    x = turned;
  }
}

}  // namespace
}  // namespace kw::cpu::KW_ISA
