// SPDX-License-Identifier: MIT
// The kernels of an image as the driver finds them. build.py writes a source a .cu, which ends with these rows.
#pragma once

#include <stddef.h>

struct EmulatedKernel {
  const char* name;
  void (*call)(const void* parameters);
  size_t parameter_bytes;
  unsigned max_threads;  // of a block; 0: as many as there can be
};

#ifdef EMULATED_IMAGE  // the sources of an image; the driver has no use for what follows

#include "cuda.h"
#include "ptx_math.h"
#include "ptx_memory.h"
#include "ptx_mma.h"
#include "ptx_sync.h"
#include "ptx_tma.h"
#include "ptx_wgmma.h"

namespace emulated {

template <class Parameters>
constexpr size_t bytes_of(void (*)(Parameters)) {
  return sizeof(Parameters);
}

constexpr size_t bytes_of(void (*)()) { return 0; }

template <auto kKernel, class Parameters>
void call_with(void (*)(Parameters), const void* parameters) {
  kKernel(*static_cast<const Parameters*>(parameters));
}

template <auto kKernel>
void call_with(void (*)(), const void*) {
  kKernel();
}

template <auto kKernel>
void call(const void* parameters) {
  call_with<kKernel>(kKernel, parameters);
}

}  // namespace emulated

#define EMULATED_KERNEL(name, max_threads) {#name, emulated::call<name>, emulated::bytes_of(name), max_threads},

#endif
