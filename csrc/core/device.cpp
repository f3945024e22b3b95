// SPDX-License-Identifier: MIT
#include "core/device.h"

namespace kw {
namespace {

DeviceState states[kMaxDevices];
int ready[kMaxDevices];

// What stands in Device, and where the driver keeps it.
struct Fact {
  int Device::* field;
  DeviceAttribute attribute;
};
constexpr Fact kFacts[] = {
    {&Device::multiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT},
    {&Device::max_threads_per_multiprocessor, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR},
    {&Device::shared_per_block, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN},
    {&Device::shared_per_multiprocessor, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR},
    {&Device::l2, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE},
};

kw_status read_facts(const Driver& driver, int ordinal, DeviceState* state) {
  int count = 0;
  KW_CUDA(driver, cuDeviceGetCount, (&count), "counting devices");
  if (ordinal < 0 || ordinal >= count) {
    return fail(KW_ERROR_NO_DEVICE,
                "there is no CUDA device %d: the driver shows %d (CUDA_VISIBLE_DEVICES may hide some)", ordinal, count);
  }
  if (ordinal >= kMaxDevices) {
    return fail(KW_ERROR_UNSUPPORTED, "CUDA device %d is beyond the %d that this library handles", ordinal,
                kMaxDevices);
  }
  state->ordinal = ordinal;
  KW_CUDA(driver, cuDeviceGet, (&state->handle, ordinal), "opening CUDA device %d", ordinal);
  KW_CUDA(driver, cuDeviceGetName, (state->name, sizeof state->name, state->handle), "naming CUDA device %d", ordinal);
  int major = 0, minor = 0;
  KW_CUDA(driver, cuDeviceGetAttribute, (&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, state->handle),
          "reading the capability of CUDA device %d", ordinal);
  KW_CUDA(driver, cuDeviceGetAttribute, (&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, state->handle),
          "reading the capability of CUDA device %d", ordinal);
  state->capability = major * 10 + minor;
  for (const Fact& fact : kFacts) {
    KW_CUDA(driver, cuDeviceGetAttribute, (&(state->*fact.field), fact.attribute, state->handle),
            "reading attribute %d of CUDA device %d", static_cast<int>(fact.attribute), ordinal);
  }
  return KW_OK;
}

}  // namespace

kw_status device_state(const Driver& driver, int ordinal, DeviceState** state) {
  const bool known = ordinal >= 0 && ordinal < kMaxDevices;
  if (known && __atomic_load_n(&ready[ordinal], __ATOMIC_ACQUIRE)) {
    *state = &states[ordinal];
    return KW_OK;
  }
  const LoaderLock lock;
  DeviceState read = {};
  KW_TRY(read_facts(driver, ordinal, &read));
  *state = &states[ordinal];
  if (ready[ordinal] == 0) {
    states[ordinal] = read;
    __atomic_store_n(&ready[ordinal], 1, __ATOMIC_RELEASE);
  }
  return KW_OK;
}

kw_status retain(const Driver& driver, DeviceState* state) {
  const LoaderLock lock;
  if (state->primary != nullptr) return KW_OK;
  CUcontext context = nullptr;
  KW_CUDA(driver, cuDevicePrimaryCtxRetain, (&context, state->handle), "making a context on CUDA device %d (%s)",
          state->ordinal, state->name);
  __atomic_store_n(&state->primary, context, __ATOMIC_RELEASE);
  return KW_OK;
}

Current::Current(const Driver& driver, const DeviceState& state) : driver_(driver), status_(KW_OK), pushed_(false) {
  const CUcontext wanted = __atomic_load_n(&state.primary, __ATOMIC_ACQUIRE);
  CUcontext current = nullptr;
  if (driver.cuCtxGetCurrent(&current) == CUDA_SUCCESS && current == wanted) return;
  const CUresult code = driver.cuCtxPushCurrent(wanted);
  pushed_ = code == CUDA_SUCCESS;
  if (!pushed_) {
    status_ = driver_refused(driver, "cuCtxPushCurrent", code, "making CUDA device %d current", state.ordinal);
  }
}

Current::~Current() {
  CUcontext ours = nullptr;
  if (pushed_) driver_.cuCtxPopCurrent(&ours);
}

RelaxedCapture::RelaxedCapture(const Driver& driver) : driver_(driver), mode_(CU_STREAM_CAPTURE_MODE_RELAXED) {
  exchanged_ = driver.cuThreadExchangeStreamCaptureMode(&mode_) == CUDA_SUCCESS;
}

RelaxedCapture::~RelaxedCapture() {
  if (exchanged_) driver_.cuThreadExchangeStreamCaptureMode(&mode_);
}

}  // namespace kw

kw_status kw_device_count(int32_t* count) {
  if (count == nullptr) return kw::fail(KW_ERROR_INVALID_ARGUMENT, "kw_device_count: count is NULL");
  *count = 0;
  const kw::Driver* driver = nullptr;
  const kw_status status = kw::driver(&driver);
  if (status == KW_ERROR_NO_DEVICE) return KW_OK;  // a driver and no GPU: none, and no failure
  KW_TRY(status);
  KW_CUDA(*driver, cuDeviceGetCount, (count), "counting devices");
  return KW_OK;
}

kw_status kw_device_capability(int32_t device, int32_t* capability) {
  if (capability == nullptr) return kw::fail(KW_ERROR_INVALID_ARGUMENT, "kw_device_capability: capability is NULL");
  *capability = 0;
  const kw::Driver* driver = nullptr;
  KW_TRY(kw::driver(&driver));
  kw::DeviceState* state = nullptr;
  KW_TRY(kw::device_state(*driver, device, &state));
  *capability = state->capability;
  return KW_OK;
}
