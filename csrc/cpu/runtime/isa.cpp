// SPDX-License-Identifier: MIT
// Which instruction set runs. Own CPUID and XGETBV: zig's builds have no runtime for __builtin_cpu_supports.
#include "cpu/isa.h"

#include <string.h>

#include "core/error.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace kw::cpu {
namespace {

#if defined(__x86_64__)
struct Registers {
  uint32_t a, b, c, d;
  bool has(uint32_t Registers::* which, uint32_t bits) const { return (this->*which & bits) == bits; }
};

Registers cpuid(uint32_t leaf, uint32_t part = 0) {
  Registers r = {};
  __get_cpuid_count(leaf, part, &r.a, &r.b, &r.c, &r.d);
  return r;
}

// The register state that the operating system saves; the CPU's own word is not enough.
bool saves(uint32_t state) {
  if (!cpuid(1).has(&Registers::c, bit_OSXSAVE)) return false;
  uint32_t low, high;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (low & state) == state;
}

bool has_scalar() { return true; }

bool has_avx2() {
  constexpr uint32_t kYmm = 0x6;
  return saves(kYmm) && cpuid(1).has(&Registers::c, bit_AVX | bit_FMA | bit_F16C) &&
         cpuid(7).has(&Registers::b, bit_AVX2);
}

bool has_avx512() {
  constexpr uint32_t kZmm = 0xe6;
  return has_avx2() && saves(kZmm) &&
         cpuid(7).has(&Registers::b, bit_AVX512F | bit_AVX512BW | bit_AVX512DQ | bit_AVX512VL);
}

// The matrix unit, and instructions that round to bfloat16. Its registers are 8 KiB, so that Linux (since 5.16) gives
// them to a process only once it has asked.
bool has_amx() {
  constexpr uint32_t kTiles = 0x60000, kTileBf16 = 1u << 22 | 1u << 24, kAvx512Bf16 = 1u << 5;
  constexpr long kAskPermission = 0x1023, kTileData = 18;
  return has_avx512() && saves(kTiles) && cpuid(7).has(&Registers::d, kTileBf16) &&
         cpuid(7, 1).has(&Registers::a, kAvx512Bf16) && syscall(SYS_arch_prctl, kAskPermission, kTileData) == 0;
}
#elif defined(__aarch64__)
bool has_neon() { return true; }
#else
bool has_scalar() { return true; }
#endif

struct Set {
  const char* name;
  bool (*supported)();
};

#define KW_CPU_SET_(isa, ...) {#isa, has_##isa},
#if defined(__x86_64__)
constexpr Set kSets[] = {KW_CPU_ISAS(KW_CPU_SET_, ) KW_CPU_SET_(amx)};
#else
constexpr Set kSets[] = {KW_CPU_ISAS(KW_CPU_SET_, )};
#endif
#undef KW_CPU_SET_
#define KW_CPU_COUNT_(isa, ...) +1
constexpr int kCopies = 0 KW_CPU_ISAS(KW_CPU_COUNT_, );
#undef KW_CPU_COUNT_
constexpr int kCount = static_cast<int>(sizeof kSets / sizeof kSets[0]);

constexpr int kUndecided = -1;
int chosen = kUndecided;

int best() {
  int i = kCount - 1;
  while (i > 0 && !kSets[i].supported()) --i;
  return i;
}

int set() {
  int i = __atomic_load_n(&chosen, __ATOMIC_RELAXED);
  if (i == kUndecided) {
    i = best();
    __atomic_store_n(&chosen, i, __ATOMIC_RELAXED);
  }
  return i;
}

}  // namespace

int isa() { return set() < kCopies ? set() : kCopies - 1; }

bool has_tiles() { return set() >= kCopies; }

bool has_vnni() {
#if defined(__x86_64__)
  constexpr uint32_t kVnni = 1u << 11;
  static int found = kUndecided;  // asking takes longer than a small product on a virtual machine
  int known = __atomic_load_n(&found, __ATOMIC_RELAXED);
  if (known == kUndecided) {
    known = has_avx512() && cpuid(7).has(&Registers::c, kVnni);
    __atomic_store_n(&found, known, __ATOMIC_RELAXED);
  }
  return known != 0 && isa() == kCopies - 1;
#else
  return false;
#endif
}

kw_status set_isa(const char* name) {
  if (!name || !*name) {
    __atomic_store_n(&chosen, kUndecided, __ATOMIC_RELAXED);
    return KW_OK;
  }
  for (int i = 0; i < kCount; ++i) {
    if (strcmp(name, kSets[i].name) != 0) continue;
    if (!kSets[i].supported()) {
      return fail(KW_ERROR_UNSUPPORTED,
                  "cpu_isa: this CPU, or its operating system, lacks \"%s\"; the best it runs is \"%s\" "
                  "(an empty value picks that)",
                  name, kSets[best()].name);
    }
    __atomic_store_n(&chosen, i, __ATOMIC_RELAXED);
    return KW_OK;
  }
  return fail(KW_ERROR_UNSUPPORTED,
              "cpu_isa: this build has no code for \"%s\"; the best this CPU runs of what it has is \"%s\" "
              "(an empty value picks that)",
              name, kSets[best()].name);
}

}  // namespace kw::cpu

const char* kw_cpu_isa(void) { return kw::cpu::kSets[kw::cpu::set()].name; }
