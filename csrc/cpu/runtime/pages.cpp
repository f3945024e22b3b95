// SPDX-License-Identifier: MIT
#include "cpu/pages.h"

#include <sys/mman.h>

namespace kw::cpu {
namespace {

constexpr uintptr_t kLargePage = 2u << 20;
// Below, the call costs more than a hundredth of what writing does; and malloc has memory of such sizes ready.
constexpr int64_t kLeast = 4 << 20;

}  // namespace

void will_write(const void* result, int64_t bytes) {
  if (!result || bytes < kLeast) return;
  const auto begin = reinterpret_cast<uintptr_t>(result), end = begin + static_cast<uintptr_t>(bytes);
  const uintptr_t first = (begin + kLargePage - 1) & ~(kLargePage - 1), last = end & ~(kLargePage - 1);
  // Fails where the kernel has no large pages: then there is nothing to ask for.
  if (first < last) madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE);
}

}  // namespace kw::cpu
