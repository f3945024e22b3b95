// SPDX-License-Identifier: MIT
// What an op's launcher sees of the GPU: the device, the features of the image it got, and launch().
#pragma once

#include <kernelwright/base.h>
#include <stddef.h>

#include "kw_images.inc"  // KW_FEATURE_…, KW_BUILD_…

namespace kw {

constexpr int kMaxDevices = 64;

// Facts of a device, read once. Sizes in bytes.
struct Device {
  int ordinal;
  int capability;  // major * 10 + minor
  int multiprocessors;
  int max_threads_per_multiprocessor;
  int shared_per_block;  // with opt-in
  int shared_per_multiprocessor;
  int l2;
};

// One operator's image on each device: static storage, constant-initialised, filled on first use.
// `op` is the stem of the source file. What is loaded hangs off one pointer, so that hundreds of
// these cost the library's file nothing.
struct Module {
  const char* op;
  struct OnDevices;
  OnDevices* devices = nullptr;  // module.cpp's
};

// What a launcher plans with.
struct Context {
  const Device* device;
  uint32_t features;  // KW_FEATURE_… of the image that was chosen for this device
  Module* module;
};

// Finds (and on first use loads) `module` for `ordinal`. Thread-safe; on failure kw_last_error() is set.
kw_status module_context(Module& module, int ordinal, Context* context);

// One __global__ function: static storage, constant-initialised; `name` is its extern "C" name.
struct Kernel {
  const char* name;
  struct OnDevices;
  OnDevices* devices = nullptr;  // launch.cpp's
};

struct Launch {
  uint32_t grid;         // blocks
  uint32_t block;        // threads a block
  uint32_t shared = 0;   // dynamic shared memory, bytes; above 48 KB is opted in to
  uint32_t cluster = 1;  // blocks a cluster; above 1 only where the image has KW_FEATURE_CLUSTER
  bool overlap = false;  // may start before the kernel ahead of it has ended; no effect without KW_FEATURE_PDL
};

// Queues `kernel` on `stream` (nullptr: the default stream). `params` is the kernel's single by-value
// parameter struct of `size` bytes. Safe in stream capture.
kw_status launch(const Context& context, Kernel& kernel, const Launch& how, void* stream, const void* params,
                 size_t size);

}  // namespace kw
