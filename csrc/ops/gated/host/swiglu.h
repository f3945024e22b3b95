// SPDX-License-Identifier: MIT
// The checked arguments of kw_swiglu and kw_swiglu_backward, as launcher and CPU path see them.
#pragma once

#include <kernelwright/base.h>

namespace kw {

struct Swiglu {
  void* out;     // y; backward: dgate
  void* up_out;  // nullptr; backward: dup
  const void* gate;
  const void* up;
  const void* dy;  // nullptr; backward: the derivative of y
  int64_t out_stride, up_out_stride, gate_stride, up_stride, dy_stride;
  int64_t rows, cols;
  int32_t dtype;
  bool backward;
};

namespace cpu {
// Runs on the thread pool; arguments were checked, and rows that follow each other without a gap are one.
kw_status swiglu(const Swiglu& args);
}  // namespace cpu

}  // namespace kw
