// SPDX-License-Identifier: MIT
// The floating-point modes of a thread (rounding, flushing of subnormals), so that a row's result does not depend on
// the thread that computes it; and the instruction of a spinning loop.
#pragma once

#include <stdint.h>

namespace kw::cpu {

#if defined(__x86_64__)
using Modes = uint32_t;
inline Modes modes() { return __builtin_ia32_stmxcsr(); }
inline void set_modes(Modes value) { __builtin_ia32_ldmxcsr(value); }
inline void relax() { __builtin_ia32_pause(); }
#elif defined(__aarch64__)
using Modes = uint64_t;
inline Modes modes() {
  Modes value;
  __asm__ volatile("mrs %0, fpcr" : "=r"(value));
  return value;
}
inline void set_modes(Modes value) { __asm__ volatile("msr fpcr, %0" : : "r"(value)); }
inline void relax() { __asm__ volatile("yield"); }
#else
using Modes = uint32_t;
inline Modes modes() { return 0; }
inline void set_modes(Modes) {}
inline void relax() {}
#endif

}  // namespace kw::cpu
