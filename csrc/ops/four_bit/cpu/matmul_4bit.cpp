// SPDX-License-Identifier: MIT
// The product by itself.
#include "cpu/isa.h"
#include "ops/four_bit/host/four_bit.h"

#if KW_CPU_BASELINE
namespace kw::cpu {

kw_status matmul_4bit(const Matmul4bit& args) { return product_4bit(args); }

}  // namespace kw::cpu
#endif
