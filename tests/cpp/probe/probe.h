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

// Several launches a call, one after the other on a stream: the context is found once, and bytes of scratch memory that
// the first kernel leaves for the second are planned once, here.
KW_API kw_status kw_probe_workspace(int32_t device, int64_t count, int64_t* bytes);
KW_API kw_status kw_probe_both(int32_t device, void* workspace, int64_t bytes, int64_t count, void* stream);

// What the driver makes of an array of `dims` dimensions, to `map`: 128 bytes.
struct ProbeMap {
  const void* data;
  int32_t dtype, dims, swizzle;  // bytes; 0 for none
  int64_t sizes[5], pitches[5], box[5];
};
KW_API kw_status kw_probe_map(int32_t device, const struct ProbeMap* described, void* map);
