// SPDX-License-Identifier: MIT
// One op file, several instruction sets: its copies are named here, and the one to run is picked here.
//
// The build compiles csrc/cpu/<op>.cpp once for each entry of KW_CPU_ISAS, with -DKW_ISA=<entry> and that set's flags.
// All code of a copy lives in namespace kw::cpu::KW_ISA, inline functions too: the linker keeps one of several equal
// inline functions, and must never keep one with AVX-512 in it for code that runs everywhere.
#pragma once

#include <kernelwright/base.h>

// Slowest first; the first is the baseline that every CPU of this machine type runs.
#if defined(__x86_64__)
#define KW_CPU_ISAS(X, ...) X(scalar, __VA_ARGS__) X(avx2, __VA_ARGS__) X(avx512, __VA_ARGS__)
#elif defined(__aarch64__)
#define KW_CPU_ISAS(X, ...) X(neon, __VA_ARGS__)
#else
#define KW_CPU_ISAS(X, ...) X(scalar, __VA_ARGS__)
#endif

namespace kw::cpu {

using Range = void (*)(const void* context, int64_t begin, int64_t end);

// Place in KW_CPU_ISAS of the copy that runs: what set_isa() said, else the best this CPU and its kernel allow.
int isa();

// Whether the matrix unit may be used too: then the set is called "amx", and its copy is that of AVX-512.
bool has_tiles();

// Whether the copy for AVX-512 may use products of bytes that are summed in 32 bits (VNNI), which not all CPUs have.
bool has_vnni();

// Forces a set by name, "" returns to the best one; refuses what this build or this CPU lacks.
kw_status set_isa(const char* name);

}  // namespace kw::cpu

#define KW_CPU_DECLARE_(isa, name)                            \
  namespace isa {                                             \
  void name(const void* context, int64_t begin, int64_t end); \
  }
#define KW_CPU_ENTRY_(isa, name) &isa::name,

// At the top of an op file, in namespace kw::cpu: declares the copies of its range function, and picked_<name>() that
// gives the one to run.
#define KW_CPU_RANGE(name)                                                 \
  KW_CPU_ISAS(KW_CPU_DECLARE_, name)                                       \
  [[maybe_unused]] static Range picked_##name() {                          \
    static constexpr Range kCopies[] = {KW_CPU_ISAS(KW_CPU_ENTRY_, name)}; \
    return kCopies[isa()];                                                 \
  }

// The same of code for the matrix unit, which only the copy for AVX-512 has: KW_CPU_HAS_TILES is 1 there.
#if defined(__x86_64__)
#define KW_CPU_TILES(name)      \
  KW_CPU_DECLARE_(avx512, name) \
  [[maybe_unused]] static Range picked_##name() { return &avx512::name; }
#else
#define KW_CPU_TILES(name) \
  [[maybe_unused]] static Range picked_##name() { return nullptr; }
#endif
#define KW_CPU_HAS_TILES_scalar 0
#define KW_CPU_HAS_TILES_neon 0
#define KW_CPU_HAS_TILES_avx2 0
#define KW_CPU_HAS_TILES_avx512 1
#define KW_CPU_HAS_TILES KW_CPU_JOIN(KW_CPU_HAS_TILES_, KW_ISA)

// Where code for speed is not worth its size.
#define KW_CPU_SMALL_scalar 1
#define KW_CPU_SMALL_neon 0
#define KW_CPU_SMALL_avx2 0
#define KW_CPU_SMALL_avx512 0
#define KW_CPU_SMALL KW_CPU_JOIN(KW_CPU_SMALL_, KW_ISA)

// KW_CPU_BASELINE is 1 in exactly one of an op's compilations: there the op's entry point is defined.
#define KW_CPU_JOIN_(a, b) a##b
#define KW_CPU_JOIN(a, b) KW_CPU_JOIN_(a, b)
#define KW_CPU_BASELINE_scalar 1
#define KW_CPU_BASELINE_neon 1
#define KW_CPU_BASELINE_avx2 0
#define KW_CPU_BASELINE_avx512 0
#define KW_CPU_BASELINE KW_CPU_JOIN(KW_CPU_BASELINE_, KW_ISA)
