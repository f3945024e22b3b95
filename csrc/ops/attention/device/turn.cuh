// SPDX-License-Identifier: MIT
// The turn of a pair of elements by an angle, which is what rope does.
#pragma once

#include "device/types.cuh"

namespace kw {

__device__ __forceinline__ float turned_first(float x, float y, float cos, float sin) { return fmaf(x, cos, -y * sin); }

__device__ __forceinline__ float turned_second(float x, float y, float cos, float sin) { return fmaf(y, cos, x * sin); }

}  // namespace kw
