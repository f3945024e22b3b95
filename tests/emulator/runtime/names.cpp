// SPDX-License-Identifier: MIT
// What a program finds in libcuda.so.1 by name, as the doctor does: the functions of the table under their own names,
// and memory. What is allocated is told of, and written as a whole when something is copied to it.
#include <stdlib.h>
#include <string.h>

#include "core/driver_table.h"
#include "machine.h"

namespace {

using namespace kw;

constexpr size_t kAlign = 256;  // as a GPU's own

#define EXPORT extern "C" __attribute__((visibility("default")))

}  // namespace

EXPORT int cuGetProcAddress_v2(const char* name, void** function, int version, uint64_t flags, int* result);
EXPORT int emulator_memory(void* begin, size_t bytes, int written, int writable, const char* name);

namespace {

template <typename... Parameters, typename... Arguments>
CUresult forward(CUresult (*)(Parameters...), const char* name, Arguments... arguments) {
  void* found = nullptr;
  int result = 0;
  const int code = cuGetProcAddress_v2(name, &found, 13000, 1, &result);
  return code != 0 ? code : reinterpret_cast<CUresult (*)(Parameters...)>(found)(arguments...);
}

}  // namespace

#define NAMED(symbol, name, parameters, ...) \
  EXPORT CUresult symbol parameters { return forward(static_cast<CUresult(*) parameters>(&symbol), name, __VA_ARGS__); }

NAMED(cuDriverGetVersion, "cuDriverGetVersion", (int* version), version)
NAMED(cuInit, "cuInit", (unsigned flags), flags)
NAMED(cuGetErrorName, "cuGetErrorName", (CUresult code, const char** text), code, text)
NAMED(cuGetErrorString, "cuGetErrorString", (CUresult code, const char** text), code, text)
NAMED(cuDeviceGetCount, "cuDeviceGetCount", (int* count), count)
NAMED(cuDeviceGet, "cuDeviceGet", (CUdevice * device, int ordinal), device, ordinal)
NAMED(cuDeviceGetName, "cuDeviceGetName", (char* name, int length, CUdevice device), name, length, device)
NAMED(cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", (CUcontext * context, CUdevice device), context, device)
NAMED(cuCtxPushCurrent_v2, "cuCtxPushCurrent", (CUcontext context), context)

EXPORT CUresult cuDeviceGetAttribute(int* value, int attribute, CUdevice device) {
  return forward(static_cast<CUresult (*)(int*, DeviceAttribute, CUdevice)>(nullptr), "cuDeviceGetAttribute", value,
                 static_cast<DeviceAttribute>(attribute), device);
}

EXPORT CUresult cuDeviceTotalMem_v2(size_t* bytes, CUdevice) {
  *bytes = size_t{1} << 30;
  return CUDA_SUCCESS;
}

EXPORT CUresult cuMemAlloc_v2(uint64_t* address, size_t bytes) {
  void* memory = nullptr;
  if (posix_memalign(&memory, kAlign, bytes) != 0) return 2;
  memset(memory, emulator::kPoison, bytes);
  *address = reinterpret_cast<uintptr_t>(memory);
  return emulator_memory(memory, bytes, 0, 1, "memory of cuMemAlloc");
}

EXPORT CUresult cuMemFree_v2(uint64_t address) {
  auto* memory = reinterpret_cast<void*>(address);
  emulator::forget_memory(memory);
  free(memory);
  return CUDA_SUCCESS;
}

EXPORT CUresult cuMemcpyHtoD_v2(uint64_t to, const void* from, size_t bytes) {
  memcpy(reinterpret_cast<void*>(to), from, bytes);
  emulator::was_written(reinterpret_cast<void*>(to), bytes);
  return CUDA_SUCCESS;
}

EXPORT CUresult cuMemcpyDtoH_v2(void* to, uint64_t from, size_t bytes) {
  memcpy(to, reinterpret_cast<const void*>(from), bytes);
  return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxSynchronize() { return CUDA_SUCCESS; }  // a launch returns when its kernel has ended
