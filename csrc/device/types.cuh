// SPDX-License-Identifier: MIT
// Names for the integer types of device code, which has no <stdint.h>: NVRTC brings no headers and we take none.
#pragma once

namespace kw {

using u16 = unsigned short;
using u32 = unsigned int;
using u64 = unsigned long long;
using i64 = long long;

}  // namespace kw
