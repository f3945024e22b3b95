// SPDX-License-Identifier: MIT
// The checked arguments of kw_matmul_4bit_grouped, as its launcher and its CPU path see them.
#pragma once

#include "ops/four_bit/host/four_bit.h"

namespace kw {

struct Grouped4bit {
  Matmul4bit all;  // with all rows of x; n is that of one expert
  const int32_t* ends;
  int64_t experts, workspace_bytes;
};

namespace cpu {
kw_status matmul_4bit_grouped(const Grouped4bit& args);
}  // namespace cpu

}  // namespace kw
