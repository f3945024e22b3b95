// SPDX-License-Identifier: MIT
// The driver, found at run time: the table of its functions, and the one way to call them.
#pragma once

#include "core/driver_table.h"
#include "core/error.h"

namespace kw {

struct Driver {
#define KW_FIELD(name, version, parameters) CUresult(*name) parameters;
  KW_DRIVER_FUNCTIONS(KW_FIELD)
#undef KW_FIELD
  int version;  // such as 12020
};

// The driver's functions, CUDA initialised. Refuses in a process that forked after CUDA was used.
kw_status driver(const Driver** found);

// Words for a refusal of the driver. `format` says what was being done, and to what.
[[gnu::format(printf, 4, 5)]] kw_status driver_refused(const Driver& driver, const char* function, CUresult code,
                                                       const char* format, ...);

// One lock for everything that happens once: finding the driver, reading a device, loading an image. Recursive.
struct LoaderLock {
  LoaderLock();
  ~LoaderLock();
  LoaderLock(const LoaderLock&) = delete;
  LoaderLock& operator=(const LoaderLock&) = delete;
};

}  // namespace kw

// Calls a driver function and returns from the calling function unless it succeeds:
// KW_CUDA(*driver, cuDeviceGet, (&device, ordinal), "opening device %d", ordinal).
#define KW_CUDA(driver, function, arguments, ...)                                                                \
  do {                                                                                                           \
    const ::kw::CUresult kw_code_ = (driver).function arguments;                                                 \
    if (kw_code_ != ::kw::CUDA_SUCCESS) return ::kw::driver_refused((driver), #function, kw_code_, __VA_ARGS__); \
  } while (0)
