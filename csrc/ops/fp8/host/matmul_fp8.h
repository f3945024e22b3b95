// SPDX-License-Identifier: MIT
// A call of kw_matmul_fp8 after its checks: what it has in common with kw_matmul_int8 is all of its arguments.
#pragma once

#include "ops/int8/host/matmul_int8.h"

namespace kw::cpu {
kw_status matmul_fp8(const ByteProduct& args);
}  // namespace kw::cpu
