// SPDX-License-Identifier: MIT
// The launches of the product with a 4-bit weight of many rows of x.
#pragma once

#include "core/launch.h"
#include "ops/four_bit/host/four_bit.h"

namespace kw {

// Of what can_wide() and fits_wide() say yes to.
kw_status run_wide(const Context& context, void* stream, const Matmul4bit& a);

}  // namespace kw
