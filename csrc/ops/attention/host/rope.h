// SPDX-License-Identifier: MIT
// A call of rope after its checks, for the CPU and the GPU alike.
#pragma once

#include <kernelwright/base.h>

#include "ops/attention/host/attention.h"

namespace kw {

// Cosines or sines, a row for each position. Elements.
struct RopeTable {
  const void* data;
  int64_t batch, row;
};

struct Rope {
  HeadTensor q, k, q_out, k_out;  // data of k may be null
  RopeTable cos, sin;
  int32_t dtype, table_dtype;
  int64_t max_positions, step;  // rows of the tables; their elements from one pair to the next
  const int32_t* positions;     // or null
  int64_t positions_batch, positions_row;
  bool adds_row;  // positions are those of first rows
  int64_t batch, rows, q_heads, k_heads, d, pairs;
  bool interleaved, inverse;
};

// Whether what is behind the pairs is where it must be.
inline bool in_place(const Rope& a) { return a.q.data == a.q_out.data && a.k.data == a.k_out.data; }

namespace cpu {
kw_status rope(const Rope& args);
}  // namespace cpu

}  // namespace kw
