// SPDX-License-Identifier: MIT
// Values of codes one at a time: gathers of several, where CPUs have them, take longer. Included by codes.h alone.
#pragma once

namespace kw::cpu::KW_ISA {
namespace {

// How many values MapValues::at() has at once.
constexpr int64_t kMapLanes = 16;

struct MapValues {
  const float* map;

  void at(const uint8_t* codes, float scale, float* y) const {
    for (int64_t i = 0; i < kMapLanes; ++i) y[i] = map[codes[i]] * scale;
  }
};

}  // namespace
}  // namespace kw::cpu::KW_ISA
