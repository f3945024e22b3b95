// SPDX-License-Identifier: MIT
// Large results ask the system for large pages, of whole pages inside them only; small ones, and rows with gaps, do
// not.
#include <sys/mman.h>
#include "ops/four_bit/api/dequantize_4bit.h"
#include "ops/gated/api/swiglu.h"

#include "check.h"

namespace {

constexpr uintptr_t kLarge = 2 << 20;

// Whether the mapping that holds `at` has asked: the flag "hg" of /proc/self/smaps.
bool asked(uintptr_t at) {
  FILE* maps = fopen("/proc/self/smaps", "r");
  char line[512];
  bool here = false, found = false;
  while (maps && fgets(line, sizeof line, maps)) {
    unsigned long begin, end;
    if (sscanf(line, "%lx-%lx ", &begin, &end) == 2) here = begin <= at && at < end;
    if (here && strncmp(line, "VmFlags:", 8) == 0) found = strstr(line, " hg") != nullptr;
  }
  if (maps) fclose(maps);
  return found;
}

// Fresh memory; `data` lies at 64 bytes behind a multiple of 2 MiB.
struct Fresh {
  size_t bytes;
  char* mapped;
  char* data;

  explicit Fresh(size_t n) : bytes(n + 4 * kLarge) {
    mapped = static_cast<char*>(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    data = reinterpret_cast<char*>((reinterpret_cast<uintptr_t>(mapped) + 2 * kLarge - 1) / kLarge * kLarge + 64);
  }
  Fresh(const Fresh&) = delete;
  Fresh& operator=(const Fresh&) = delete;
  ~Fresh() { munmap(mapped, bytes); }
  bool large_at(int64_t offset) const {
    return asked(reinterpret_cast<uintptr_t>(data) + static_cast<uintptr_t>(offset));
  }
};

// Whether asking for large pages shows here: not in a kernel without them, and not under an emulator, which keeps to
// itself what a program asks for.
bool shows() {
  const Fresh own(4 * kLarge);
  return madvise(own.data - 64, 2 * kLarge, MADV_HUGEPAGE) == 0 && own.large_at(0);
}

// [0, n) is no whole number of large pages, and begins in the middle of one.
void check_large(const char* isa) {
  constexpr int64_t kCount = (9 << 20) / 4;
  const Fresh y(4 * kCount), packed(kCount / 2), absmax(kCount / 64 * 4);
  memset(packed.data, 0x5a, kCount / 2);
  for (int64_t i = 0; i < kCount / 64; ++i) reinterpret_cast<float*>(absmax.data)[i] = static_cast<float>(i);
  CHECK(kw_dequantize_4bit(KW_CPU, nullptr, y.data, reinterpret_cast<uint8_t*>(packed.data),
                           reinterpret_cast<float*>(absmax.data), nullptr, nullptr, nullptr, nullptr, kCount, 64,
                           KW_NF4, KW_FLOAT32) == KW_OK,
        "%s", kw_last_error());
  CHECK(y.large_at(kLarge) && y.large_at(3 * kLarge), "%s: no large pages were asked for", isa);
  CHECK(!y.large_at(0) && !y.large_at(4 * kLarge), "%s: large pages were asked for outside the result", isa);
  const auto* got = reinterpret_cast<const float*>(y.data);
  for (int64_t i = 0; i < kCount; ++i) {
    const float expected = (i % 2 ? 0.24611230194568634f : -0.18477343022823334f) * static_cast<float>(i / 64);
    if (got[i] == expected) continue;
    CHECK(false, "%s: element %ld is %.9g, not %.9g", isa, static_cast<long>(i), static_cast<double>(got[i]),
          static_cast<double>(expected));
    return;
  }
}

void check_small(const char* isa) {
  constexpr int64_t kCols = 4096, kRows = 512, kGap = 64;
  const Fresh gate(4 * kRows * kCols), y(4 * kRows * (kCols + kGap)), less(2 << 20);
  CHECK(kw_swiglu(KW_CPU, nullptr, y.data, kCols + kGap, gate.data, kCols, gate.data, kCols, kRows, kCols,
                  KW_FLOAT32) == KW_OK,
        "%s", kw_last_error());
  CHECK(!y.large_at(kLarge), "%s: large pages were asked for rows with gaps between them", isa);
  CHECK(
      kw_swiglu(KW_CPU, nullptr, less.data, kCols, gate.data, kCols, gate.data, kCols, 128, kCols, KW_FLOAT32) == KW_OK,
      "%s", kw_last_error());
  CHECK(!less.large_at(64), "%s: large pages were asked for a small result", isa);
}

}  // namespace

int main() {
  if (!shows()) return 77;
  each_isa(check_large);
  each_isa(check_small);
  if (failures) fprintf(stderr, "%d failures\n", failures);
  return failures != 0;
}
