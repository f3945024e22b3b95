// SPDX-License-Identifier: MIT
// Devices: their facts, and the primary context that everything of ours lives in.
#pragma once

#include "core/driver.h"
#include "core/launch.h"

namespace kw {

struct DeviceState : Device {
  CUdevice handle;
  CUcontext primary;  // null until retain() was called
  char name[128];
};

// Facts of a device, read on first use. Makes no context.
kw_status device_state(const Driver& driver, int ordinal, DeviceState** state);

// Makes the device's primary context exist and keeps it for the process; the one PyTorch and the CUDA runtime use.
kw_status retain(const Driver& driver, DeviceState* state);

// The device's primary context is the thread's current one for a scope.
class Current {
 public:
  Current(const Driver& driver, const DeviceState& state);
  ~Current();
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;
  kw_status status() const { return status_; }

 private:
  const Driver& driver_;
  kw_status status_;
  bool pushed_;
};

// Lets a thread that is recording a stream do what a capture otherwise forbids, such as loading.
class RelaxedCapture {
 public:
  explicit RelaxedCapture(const Driver& driver);
  ~RelaxedCapture();
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  const Driver& driver_;
  CaptureMode mode_;
  bool exchanged_;
};

}  // namespace kw
