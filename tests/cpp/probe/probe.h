// SPDX-License-Identifier: MIT
// The operator that the loader's tests launch: it hands its arguments straight to launch().
#pragma once

#include <kernelwright/base.h>

enum { PROBE_PLAIN, PROBE_OTHER, PROBE_NARROW, PROBE_ABSENT };

struct ProbeCall {
  int32_t kernel;  // PROBE_…
  uint32_t grid, block, shared, cluster;
  int32_t overlap;
  void* stream;
  uint64_t first, second;  // the kernel's parameters
};

KW_API kw_status kw_probe(int32_t device, const struct ProbeCall* call);

// A second operator, with images of its own.
KW_API kw_status kw_probe_other(int32_t device, const struct ProbeCall* call);

// What a launcher sees: multiprocessors and features.
KW_API kw_status kw_probe_context(int32_t device, int32_t* multiprocessors, uint32_t* features);
