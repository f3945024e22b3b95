// SPDX-License-Identifier: MIT
// A page whose first byte the kernel clears in a forked child (since Linux 4.14). A process number alone does not tell
// one: a child may bear its parent's in a PID namespace of its own.
#pragma once

#include <stdint.h>
#include <sys/mman.h>

namespace kw::cpu {

// nullptr where there is no memory.
inline uint8_t* fork_mark() {
  void* page = mmap(nullptr, 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return nullptr;
  madvise(page, 1, MADV_WIPEONFORK);
  return static_cast<uint8_t*>(page);
}

}  // namespace kw::cpu
