// SPDX-License-Identifier: MIT
#include "cpu/isa.h"
#include "ops/ternary/host/ternary.h"

namespace kw::cpu {

#if KW_CPU_BASELINE
kw_status matmul_ternary(const MatmulTernary& args) { return ternary_product(args); }
#endif

}  // namespace kw::cpu
