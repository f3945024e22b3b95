// SPDX-License-Identifier: MIT
// A STAND-IN for NVIDIA's driver, for tests: it runs no kernel. It answers as the GPUs, the version and the failures
// that environment variables ask for, stricter than the real one lest mistakes pass, and records what it is told.
//
//   KW_STANDIN_DEVICES=8.9,9.0   capabilities of the devices ("" for none)
//   KW_STANDIN_VERSION=12020     CUDA level
//   KW_STANDIN_LACKS=name        a function that cuGetProcAddress does not find
//   KW_STANDIN_FAILS=name:code   a function that refuses
//   KW_STANDIN_SLOW=1            telling the version takes a while
//   KW_STANDIN_CAPTURING=1       the thread is recording a stream: loading and preparing need the relaxed mode
//   KW_STANDIN_RECORD=path       where a line per call of interest is appended
//
// Kernel files are real ones (real_image.h), or any with lines "kernel=<name>:<bytes of parameters>" in them.
// Built with -DSTANDIN_FORM=11 it is a driver of CUDA 11, with 0 a library with no entry point at all.
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "real_image.h"
#include "settings.h"
#include "tensor_map.h"

#ifndef STANDIN_FORM
#define STANDIN_FORM 12
#endif

#define EXPORT __attribute__((visibility("default")))
#define DEVICES 66

enum {
  INVALID_VALUE = 1,
  NOT_INITIALIZED = 3,
  NO_DEVICE = 100,
  INVALID_DEVICE = 101,
  INVALID_CONTEXT = 201,
  INVALID_PTX = 218,
  INVALID_HANDLE = 400,
  NOT_FOUND = 500,
  CAPTURE_UNSUPPORTED = 900
};

struct context {
  int device;
};
struct kernel {
  char name[64];
  size_t bytes;
  struct library* library;
};
struct library {
  struct real_image real;
  int kernels;
  struct kernel kernel[128];
};
enum { STATIC_SHARED = 1 << 10 };  // of every kernel; it counts in the 48 KB that need no attribute
struct function {
  struct kernel* kernel;
  int device, shared, big_clusters;
};

static struct context contexts[DEVICES];
static struct context* primary_of(int device) {
  contexts[device].device = device;
  return &contexts[device];
}
static pid_t started;
static __thread struct context* stack[16];
static __thread int depth;
static __thread int capture_mode;  // global, until exchanged

static void record(const char* format, ...) __attribute__((format(printf, 1, 2)));
static void record(const char* format, ...) {
  const char* path = getenv("KW_STANDIN_RECORD");
  if (!path) return;
  char line[1024];
  va_list arguments;
  va_start(arguments, format);
  int length = vsnprintf(line, sizeof line - 1, format, arguments);
  va_end(arguments);
  line[length++] = '\n';
  FILE* file = fopen(path, "a");
  if (!file) return;
  fwrite(line, 1, (size_t)length, file);
  fclose(file);
}

// The refusal asked for, or that of a process which CUDA does not live in.
static int refusal(const char* name) {
  const char* fails = setting("KW_STANDIN_FAILS", "");
  const size_t length = strlen(name);
  if (strncmp(fails, name, length) == 0 && fails[length] == ':') return atoi(fails + length + 1);
  if (strcmp(name, "cuDriverGetVersion") == 0) return 0;
  if (strcmp(name, "cuInit") == 0) return started && started != getpid() ? NOT_INITIALIZED : 0;
  if (started == getpid()) return 0;
  record("%s in a process without CUDA", name);
  return NOT_INITIALIZED;
}
#define REFUSE()                         \
  do {                                   \
    const int code_ = refusal(__func__); \
    if (code_) return code_;             \
  } while (0)

static int cuDriverGetVersion(int* version) {
  REFUSE();
  const int slow = getenv("KW_STANDIN_SLOW") != NULL;  // now: a test may take the setting back once it reads the record
  record("cuDriverGetVersion");
  if (slow) usleep(300000);
  *version = atoi(setting("KW_STANDIN_VERSION", "12020"));
  return 0;
}

#if STANDIN_FORM == 12
static int cuInit(unsigned flags) {
  REFUSE();
  if (flags) return INVALID_VALUE;
  record("cuInit");
  if (!capability(0)) return NO_DEVICE;
  started = getpid();
  return 0;
}

static int cuGetErrorName(int code, const char** text) {
  *text = code == 719 ? "CUDA_ERROR_LAUNCH_FAILED" : code == 2 ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_OF_STANDIN";
  return 0;
}

static int cuGetErrorString(int code, const char** text) {
  *text = code == 719 ? "unspecified launch failure" : NULL;
  return *text ? 0 : INVALID_VALUE;
}

static int cuDeviceGetCount(int* count) {
  REFUSE();
  for (*count = 0; capability(*count); ++*count) continue;
  return 0;
}

static int cuDeviceGet(int* device, int ordinal) {
  REFUSE();
  *device = ordinal;
  return capability(ordinal) ? 0 : INVALID_DEVICE;
}

static int cuDeviceGetName(char* name, int length, int device) {
  REFUSE();
  snprintf(name, (size_t)length, "stand-in %d.%d", capability(device) / 10, capability(device) % 10);
  return 0;
}

static int cuDeviceGetAttribute(int* value, int attribute, int device) {
  REFUSE();
  const int now = capability(device);
  const int answers[][2] = {{16, 100 + device}, {38, 50 << 20},  {39, 2048},     {75, now / 10},
                            {76, now % 10},     {81, 228 << 10}, {97, 227 << 10}};
  if (!now) return INVALID_DEVICE;
  for (size_t i = 0; i < sizeof answers / sizeof answers[0]; ++i) {
    *value = answers[i][1];
    if (answers[i][0] == attribute) return 0;
  }
  return INVALID_VALUE;
}

static int cuDevicePrimaryCtxRetain(struct context** context, int device) {
  REFUSE();
  record("cuDevicePrimaryCtxRetain device=%d", device);
  *context = primary_of(device);
  return 0;
}

static int cuCtxGetCurrent(struct context** context) {
  REFUSE();
  *context = depth ? stack[depth - 1] : NULL;
  return 0;
}

static int cuCtxPushCurrent(struct context* context) {
  REFUSE();
  if (!context) return INVALID_CONTEXT;
  if (depth == 16) abort();
  stack[depth++] = context;
  return 0;
}

static int cuCtxPopCurrent(struct context** context) {
  REFUSE();
  if (!depth) return INVALID_CONTEXT;
  *context = stack[--depth];
  return 0;
}

static int cuThreadExchangeStreamCaptureMode(int* mode) {
  REFUSE();
  const int before = capture_mode;
  capture_mode = *mode;
  *mode = before;
  return 0;
}

static int capturing(void) { return getenv("KW_STANDIN_CAPTURING") && capture_mode != 2; }

static int cuLibraryLoadData(struct library** made, const char* code, const int* jit, void** values, unsigned count,
                             int* options, void** option_values, unsigned option_count) {
  REFUSE();
  if (options || option_values || option_count) return INVALID_VALUE;
  if (capturing()) return CAPTURE_UNSUPPORTED;
  const int elf = memcmp(code, "\177ELF", 4) == 0;
  const char* text = elf ? code + 64 : code;  // no NUL before the lines
  const char* line = strstr(text, "kernel=");
  if (strstr(text, "standin=reject")) {
    if (count == 2 && jit[0] == 5 && jit[1] == 6)
      snprintf(values[0], (size_t)(uintptr_t)values[1], "ptxas stand-in, line 7: syntax error");
    return INVALID_PTX;
  }
  struct library* library = calloc(1, sizeof *library);
  for (; line && library->kernels < 128; line = strstr(line + 1, "kernel=")) {
    struct kernel* kernel = &library->kernel[library->kernels++];
    kernel->library = library;
    sscanf(line, "kernel=%63[^:]:%zu", kernel->name, &kernel->bytes);
  }
  usleep(20000);  // long enough for threads to meet here
  if (!library->kernels && read_real(&library->real, code)) {
    record("cuLibraryLoadData %s arch=%d", elf ? "cubin" : "ptx", library->real.arch);
    *made = library;
    return 0;
  }
  const char* name = strstr(text, "image=");
  record("cuLibraryLoadData %s %.*s", elf ? "cubin" : "ptx", name ? (int)strcspn(name, "\n") : 0, name ? name : "");
  *made = library;
  return 0;
}

static int cuLibraryGetKernel(struct kernel** found, struct library* library, const char* name) {
  REFUSE();
  for (int i = 0; i < library->kernels; ++i) {
    *found = &library->kernel[i];
    if (strcmp((*found)->name, name) == 0) return 0;
  }
  const int now = depth ? capability(stack[depth - 1]->device) : 0;
  if (library->real.bytes && library->kernels < 128 && has_kernel(&library->real, now, name)) {
    *found = &library->kernel[library->kernels++];
    (*found)->library = library;
    snprintf((*found)->name, sizeof(*found)->name, "%s", name);
    return 0;
  }
  return NOT_FOUND;
}

static int cuKernelGetFunction(struct function** made, struct kernel* kernel) {
  REFUSE();
  if (capturing()) return CAPTURE_UNSUPPORTED;
  if (!depth) return INVALID_CONTEXT;
  struct function* function = calloc(1, sizeof *function);
  function->kernel = kernel;
  function->device = stack[depth - 1]->device;
  function->shared = (48 << 10) - STATIC_SHARED;
  record("cuKernelGetFunction %s device=%d", kernel->name, function->device);
  *made = function;
  return 0;
}

static int cuKernelGetParamInfo(struct kernel* kernel, size_t index, size_t* offset, size_t* size) {
  REFUSE();
  if (index > 0 || kernel->library->real.bytes) return INVALID_VALUE;
  *offset = 0;
  *size = kernel->bytes;
  return 0;
}

static int cuTensorMapEncodeTiled(void* map, int type, uint32_t rank, void* from, const uint64_t* sizes,
                                  const uint64_t* pitches, const uint32_t* box, const uint32_t* every, int interleave,
                                  int swizzle, int promotion, int fill) {
  REFUSE();
  char text[256];
  if (!depth || (uintptr_t)map % 64 != 0 || (uintptr_t)from % 16 != 0 || interleave) return INVALID_VALUE;
  if (!tell_dimensions(text, sizeof text, type, rank, sizes, pitches, box, every, swizzle)) return INVALID_VALUE;
  record("cuTensorMapEncodeTiled type=%d rank=%u%s swizzle=%d promotion=%d", type, rank, text, swizzle, promotion);
  return memset(map, type + (int)rank + fill, 128) == NULL;
}

static int cuFuncSetAttribute(struct function* function, int attribute, int value) {
  REFUSE();
  if (capturing()) return CAPTURE_UNSUPPORTED;
  record("cuFuncSetAttribute %s %d=%d device=%d", function->kernel->name, attribute, value, function->device);
  if (attribute == 8 && value > 227 << 10) return INVALID_VALUE;
  if (attribute == 8) function->shared = value;
  if (attribute == 14) function->big_clusters = value;
  return attribute == 8 || attribute == 14 ? 0 : INVALID_VALUE;
}

struct attribute {
  int id, pad;
  union {
    char bytes[64];
    unsigned words[16];
  } value;
};
struct config {
  unsigned grid[3], block[3], shared;
  void* stream;
  struct attribute* attributes;
  unsigned count;
};

static int cuLaunchKernelEx(const struct config* config, struct function* function, void** parameters, void** extra) {
  REFUSE();
  if (extra || !config->grid[0] || !config->block[0] || config->grid[1] != 1 || config->grid[2] != 1 ||
      config->block[1] != 1 || config->block[2] != 1)
    return INVALID_VALUE;
  if (!depth || stack[depth - 1]->device != function->device) return INVALID_HANDLE;
  unsigned cluster = 1, overlap = 0;
  for (unsigned i = 0; i < config->count; ++i) {
    const struct attribute* attribute = &config->attributes[i];
    if (attribute->id == 4)
      cluster = attribute->value.words[0];
    else if (attribute->id == 6)
      overlap = attribute->value.words[0];
    else
      return INVALID_VALUE;
  }
  if ((int)config->shared > function->shared || (cluster > 8 && !function->big_clusters)) return INVALID_VALUE;
  char hex[129] = "";
  for (size_t i = 0; i < function->kernel->bytes && i < 64; ++i)
    snprintf(hex + 2 * i, 3, "%02x", ((const unsigned char*)parameters[0])[i]);
  record("cuLaunchKernelEx %s device=%d grid=%u block=%u shared=%u cluster=%u overlap=%u stream=%p params=%s",
         function->kernel->name, function->device, config->grid[0], config->block[0], config->shared, cluster, overlap,
         config->stream, hex);
  return 0;
}

// Name, and the CUDA version from which the ABI above is the one behind it.
static const struct entry {
  const char* name;
  int version;
  void* function;
} entries[] = {
#define ENTRY(name, version) {#name, version, (void*)name}
    ENTRY(cuDriverGetVersion, 2020),
    ENTRY(cuInit, 2000),
    ENTRY(cuGetErrorName, 6000),
    ENTRY(cuGetErrorString, 6000),
    ENTRY(cuDeviceGetCount, 2000),
    ENTRY(cuDeviceGet, 2000),
    ENTRY(cuDeviceGetName, 2000),
    ENTRY(cuDeviceGetAttribute, 2000),
    ENTRY(cuDevicePrimaryCtxRetain, 7000),
    ENTRY(cuCtxGetCurrent, 4000),
    ENTRY(cuCtxPushCurrent, 4000),
    ENTRY(cuCtxPopCurrent, 4000),
    ENTRY(cuThreadExchangeStreamCaptureMode, 10010),
    ENTRY(cuLibraryLoadData, 12000),
    ENTRY(cuLibraryGetKernel, 12000),
    ENTRY(cuKernelGetFunction, 12000),
    ENTRY(cuKernelGetParamInfo, 12040),
    ENTRY(cuTensorMapEncodeTiled, 12000),
    ENTRY(cuFuncSetAttribute, 9000),
    ENTRY(cuLaunchKernelEx, 11060),
};

EXPORT int cuGetProcAddress_v2(const char* name, void** function, int version, uint64_t flags, int* result) {
  *function = NULL;
  *result = 1;
  if (flags != 1) return INVALID_VALUE;  // the default stream must be the legacy one
  for (size_t i = 0; i < sizeof entries / sizeof entries[0]; ++i) {
    const struct entry* entry = &entries[i];
    if (strcmp(entry->name, name) != 0 || strcmp(setting("KW_STANDIN_LACKS", ""), name) == 0) continue;
    const int now = atoi(setting("KW_STANDIN_VERSION", "12020"));
    *result = entry->version > version || entry->version > now ? 2 : 0;
    if (*result == 0) *function = entry->function;
  }
  return *result == 0 ? 0 : NOT_FOUND;
}

// For tests: the thread's current device, and a context it had before.
EXPORT int standin_current(void) { return depth ? stack[depth - 1]->device : -1; }
EXPORT void standin_make_current(int device) { stack[depth++] = primary_of(device); }
EXPORT int standin_capture_mode(void) { return capture_mode; }
#elif STANDIN_FORM == 11
EXPORT int cuGetProcAddress(const char* name, void** function, int version, uint64_t flags) {
  *function = strcmp(name, "cuDriverGetVersion") == 0 && version >= 2020 && !flags ? (void*)cuDriverGetVersion : NULL;
  return *function ? 0 : NOT_FOUND;
}
#else
EXPORT int standin_nothing(void) { return refusal("") + capability(0) + cuDriverGetVersion((int[1]){0}); }
#endif
