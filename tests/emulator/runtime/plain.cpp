// SPDX-License-Identifier: MIT
// Loads and stores of kernels that go through no wrapper. Images are compiled as for ThreadSanitizer, which puts a call
// before each of them; these are the functions that are called.
#include <string.h>

#include "machine.h"

using emulator::check_plain;

#define EXPORT extern "C" __attribute__((visibility("default")))

#define ACCESSES(bytes)                                                                           \
  EXPORT void __tsan_read##bytes(void* address) { check_plain(address, bytes, false); }           \
  EXPORT void __tsan_write##bytes(void* address) { check_plain(address, bytes, true); }           \
  EXPORT void __tsan_unaligned_read##bytes(void* address) { check_plain(address, bytes, false); } \
  EXPORT void __tsan_unaligned_write##bytes(void* address) { check_plain(address, bytes, true); }
ACCESSES(1)
ACCESSES(2)
ACCESSES(4)
ACCESSES(8)
ACCESSES(16)

EXPORT void __tsan_init() {}
EXPORT void __tsan_func_entry(void*) {}
EXPORT void __tsan_func_exit() {}
EXPORT void __tsan_read_range(void* address, size_t bytes) { check_plain(address, bytes, false); }
EXPORT void __tsan_write_range(void* address, size_t bytes) { check_plain(address, bytes, true); }

EXPORT void* __tsan_memcpy(void* to, const void* from, size_t bytes) {
  check_plain(from, bytes, false);
  check_plain(to, bytes, true);
  return memcpy(to, from, bytes);
}

EXPORT void* __tsan_memmove(void* to, const void* from, size_t bytes) {
  check_plain(from, bytes, false);
  check_plain(to, bytes, true);
  return memmove(to, from, bytes);
}

EXPORT void* __tsan_memset(void* to, int value, size_t bytes) {
  check_plain(to, bytes, true);
  return memset(to, value, bytes);
}
