// SPDX-License-Identifier: MIT
// A libcuda.so.1 without a GPU, as far as a device-only package asks for it: benchmarks/launch_cpu.py times what a call
// costs up to here, and tests see that every argument comes through. It counts what it is asked, and computes axpy.
#include <stddef.h>
#include <stdint.h>
#include <string.h>

int standin_calls;  // since it was last set to 0

int cuInit(unsigned flags) { return (int)flags; }
int cuGetErrorName(int code, const char** name) { return *name = "ERROR", code * 0; }
int cuGetErrorString(int code, const char** text) { return *text = "an error", code * 0; }
int cuDeviceGet(int* device, int number) { return ++standin_calls, *device = number, 0; }
int cuDeviceGetAttribute(int* value, int attribute, int device) {
  *value = attribute == 75 ? 9 : 0;  // compute capability 9.0
  return ++standin_calls, device * 0;
}
int cuCtxGetCurrent(void** context) { return ++standin_calls, *context = &standin_calls, 0; }
int cuCtxGetDevice(int* device) { return ++standin_calls, *device = 0; }
int cuDevicePrimaryCtxRetain(void** context, int device) {
  return ++standin_calls, *context = &standin_calls, device * 0;
}
int cuCtxPushCurrent_v2(void* context) { return ++standin_calls, context == NULL; }
int cuCtxPopCurrent_v2(void** context) { return ++standin_calls, *context = NULL, 0; }
int cuLibraryLoadData(void** library, const void* data) { return ++standin_calls, *library = (void*)data, 0; }
int cuLibraryGetKernel(const char** kernel, void* library, const char* name) {
  *kernel = name;
  return ++standin_calls, library == NULL;
}
int cuKernelSetAttribute(int attribute, int value) { return ++standin_calls, (attribute + value) * 0; }

#define AXPY(type)                                                                                 \
  do {                                                                                             \
    const type *x = *(const type**)at[0], *y = *(const type**)at[1];                               \
    type* out = *(type**)at[3];                                                                    \
    for (int64_t i = 0; i < *(int64_t*)at[4]; ++i) out[i] = (type) * (double*)at[2] * x[i] + y[i]; \
  } while (0)

int standin_computes;  // 0: a launch does nothing, so that it takes no time

int cuLaunchKernel(const char* kernel, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared, void* stream, void** at, void** extra) {
  ++standin_calls;
  if (!standin_computes) return 0;
  if (gy * gz * by * bz != 1 || bx != 256 || shared || stream || extra) return 1;
  if (!strcmp(kernel, "axpy_float32") && gx == (*(int64_t*)at[4] + 255) / 256) AXPY(float);
  if (!strcmp(kernel, "axpy_float64") && gx == (*(int64_t*)at[4] + 255) / 256) AXPY(double);
  return 0;
}
