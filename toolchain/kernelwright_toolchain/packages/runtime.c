// SPDX-License-Identifier: MIT
// What every device-only package shares: the driver, found at run time; the image for a GPU; the launch.
// The generated part before this gives kw_entries, kw_images and their numbers.
#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define KW_DEVICES 64
#define KW_MAJOR 75
#define KW_MINOR 76
#define KW_DYNAMIC_SHARED 8
#define KW_STATIC_LIMIT 49152
#define KW_REFUSED (-1)

static _Thread_local char kw_text[512];

static int kw_fail(const char *format, ...) {
  va_list words;
  va_start(words, format);
  vsnprintf(kw_text, sizeof kw_text, format, words);
  va_end(words);
  return KW_REFUSED;
}

static struct {
  const char *missing;
  int (*init)(unsigned);
  int (*error_name)(int, const char **);
  int (*error_string)(int, const char **);
  int (*device)(int *, int);
  int (*attribute)(int *, int, int);
  int (*context_device)(int *);
  int (*retain)(void **, int);
  int (*push)(void *);
  int (*pop)(void **);
  int (*load)(void **, const void *, void *, void *, unsigned, void *, void *, unsigned);
  int (*kernel)(void **, void *, const char *);
  int (*set)(int, int, void *, int);
  int (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);
} cu;

static pthread_once_t kw_once = PTHREAD_ONCE_INIT;
static pthread_mutex_t kw_lock = PTHREAD_MUTEX_INITIALIZER;
static void *kw_libraries[KW_IMAGES];
static void *kw_kernels[KW_ENTRIES][KW_DEVICES];

static void kw_find(void) {
  void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!driver) {
    cu.missing = "there is no NVIDIA driver here (libcuda.so.1)";
    return;
  }
  const struct {
    void *to;
    const char *name;
  } wanted[] = {
      {&cu.init, "cuInit"}, {&cu.error_name, "cuGetErrorName"}, {&cu.error_string, "cuGetErrorString"},
      {&cu.device, "cuDeviceGet"}, {&cu.attribute, "cuDeviceGetAttribute"},
      {&cu.context_device, "cuCtxGetDevice"}, {&cu.retain, "cuDevicePrimaryCtxRetain"},
      {&cu.push, "cuCtxPushCurrent_v2"}, {&cu.pop, "cuCtxPopCurrent_v2"}, {&cu.load, "cuLibraryLoadData"},
      {&cu.kernel, "cuLibraryGetKernel"}, {&cu.set, "cuKernelSetAttribute"}, {&cu.launch, "cuLaunchKernel"},
  };
  for (unsigned i = 0; i < sizeof wanted / sizeof *wanted; ++i) {
    void *found = dlsym(driver, wanted[i].name);
    if (!found) {
      cu.missing = "the NVIDIA driver is older than CUDA 12: it has no cuLibraryLoadData";
      return;
    }
    memcpy(wanted[i].to, &found, sizeof found);
  }
  if (cu.init(0)) cu.missing = "the NVIDIA driver does not start (cuInit failed)";
}

static int kw_driver(int code, const char *what) {
  const char *name = "?", *text = "?";
  if (!code) return 0;
  cu.error_name(code, &name);
  cu.error_string(code, &text);
  return kw_fail("%s: %s (%s)", what, name, text);
}

// The image for this capability: a cubin that runs there, the newest; else the newest PTX that it can compile.
static int kw_choose(int module, int capability) {
  int best = -1;
  for (int i = 0; i < KW_IMAGES; ++i) {
    const struct kw_image *one = &kw_images[i];
    if (one->module != module) continue;
    int fits = one->is_ptx && one->runs_on[0] <= capability;
    for (int j = 0; !one->is_ptx && one->runs_on[j]; ++j) fits |= one->runs_on[j] == capability;
    if (!fits) continue;
    if (best < 0 || (kw_images[best].is_ptx && !one->is_ptx) || kw_images[best].is_ptx == one->is_ptx) best = i;
  }
  return best;
}

static int kw_prepare(int entry, int device, void **kernel) {
  int handle = 0, major = 0, minor = 0, code;
  if (device < 0 || device >= KW_DEVICES) return kw_fail("device %d: 0 to %d are supported", device, KW_DEVICES - 1);
  if ((code = kw_driver(cu.device(&handle, device), "cuDeviceGet"))) return code;
  cu.attribute(&major, KW_MAJOR, handle);
  cu.attribute(&minor, KW_MINOR, handle);
  int image = kw_choose(kw_entries[entry].module, major * 10 + minor);
  if (image < 0) {
    return kw_fail("%s: no image for a GPU of compute capability %d.%d; this build has %s", kw_entries[entry].name, major,
                   minor, KW_CODES);
  }
  if (!kw_libraries[image]) {
    code = kw_driver(cu.load(&kw_libraries[image], kw_images[image].data, 0, 0, 0, 0, 0, 0), kw_images[image].code);
    if (code) return code;
  }
  return kw_driver(cu.kernel(kernel, kw_libraries[image], kw_entries[entry].name), kw_entries[entry].name);
}

static int kw_launch(int entry, int device, void *stream, const int64_t *grid, const int64_t *block, int64_t shared,
                     void **arguments) {
  static const int64_t most[3] = {2147483647, 65535, 65535};
  pthread_once(&kw_once, kw_find);
  if (cu.missing) return kw_fail("%s", cu.missing);
  for (int i = 0; i < 3; ++i) {
    if (grid[i] == 0) return 0;
    if (grid[i] < 0 || grid[i] > most[i] || block[i] < 1 || block[i] > 1024) {
      return kw_fail("%s: grid (%lld, %lld, %lld), block (%lld, %lld, %lld) cannot be launched", kw_entries[entry].name,
                     (long long)grid[0], (long long)grid[1], (long long)grid[2], (long long)block[0],
                     (long long)block[1], (long long)block[2]);
    }
  }
  void *context = 0, *kernel;
  int current = -1, pushed = 0, code = 0;
  if (cu.context_device(&current) || current != device) {  // a thread that torch has not touched yet
    if ((code = kw_driver(cu.retain(&context, device), "cuDevicePrimaryCtxRetain"))) return code;
    if ((code = kw_driver(cu.push(context), "cuCtxPushCurrent"))) return code;
    pushed = 1;
  }
  kernel = device >= 0 && device < KW_DEVICES ? __atomic_load_n(&kw_kernels[entry][device], __ATOMIC_ACQUIRE) : 0;
  if (!kernel) {
    pthread_mutex_lock(&kw_lock);
    code = kw_prepare(entry, device, &kernel);
    if (!code) __atomic_store_n(&kw_kernels[entry][device], kernel, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&kw_lock);
  }
  if (!code && shared > KW_STATIC_LIMIT) {
    code = kw_driver(cu.set(KW_DYNAMIC_SHARED, (int)shared, kernel, device), "dynamic shared memory");
  }
  if (!code) {
    code = kw_driver(cu.launch(kernel, (unsigned)grid[0], (unsigned)grid[1], (unsigned)grid[2], (unsigned)block[0],
                               (unsigned)block[1], (unsigned)block[2], (unsigned)shared, stream, arguments, 0),
                     kw_entries[entry].name);
  }
  if (pushed) cu.pop(&context);
  return code;
}
