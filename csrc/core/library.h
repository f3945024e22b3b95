// SPDX-License-Identifier: MIT
// Images in the driver: each loaded once for the process, whatever the number of devices, operators' modules and
// threads.
#pragma once

#include "core/device.h"
#include "core/image.h"

namespace kw {

struct LoadedImage {
  const Image* image;
  CUlibrary library;
  char* path;
  struct JitLog* log;  // of PTX
};

// Loads `image` unless it is. Call with the LoaderLock held and the device's context current.
kw_status load_image(const Driver& driver, const DeviceState& device, const Image& image, const LoadedImage** loaded);

// Finds a kernel of it for the device whose context is current; `bytes` is what the caller will hand it.
kw_status find_function(const Driver& driver, const LoadedImage& loaded, const DeviceState& device, const char* name,
                        size_t bytes, CUfunction* function);

}  // namespace kw
