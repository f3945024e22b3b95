// SPDX-License-Identifier: MIT
#include "core/driver.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>

#include "core/fork.h"
#include "kw_images.inc"

namespace kw {
namespace {

// By soname first: that finds one already loaded, the dynamic linker's cache and LD_LIBRARY_PATH. The second is where
// NixOS keeps its drivers, which no search path names.
constexpr const char* kCandidates[] = {"libcuda.so.1", "/run/opengl-driver/lib/libcuda.so.1"};

Driver table;
int opened = 0;       // the table is filled
int initialised = 0;  // and cuInit was called
pthread_mutex_t loader = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;

struct LibCuda {
  void* handle = nullptr;
  const char* path = "libcuda.so.1";
  ProcAddress find = nullptr;
};

kw_status find_library(LibCuda* found) {
  char why[512] = "";
  for (const char* candidate : kCandidates) {
    found->handle = dlopen(candidate, RTLD_NOW | RTLD_LOCAL);
    if (found->handle != nullptr) break;
    if (why[0] == '\0') snprintf(why, sizeof why, "%s", dlerror());
  }
  if (found->handle == nullptr) {
    return fail(KW_ERROR_NO_DRIVER,
                "no NVIDIA driver: %s. libcuda.so.1 comes with the driver, not with a CUDA toolkit; install the driver "
                "(in a container: start it with the NVIDIA runtime), or use the CPU",
                why);
  }
  link_map* map = nullptr;
  if (dlinfo(found->handle, RTLD_DI_LINKMAP, &map) == 0 && map->l_name[0] != '\0') found->path = map->l_name;
  return KW_OK;
}

kw_status too_old(const LibCuda& library, int version) {
  return fail(KW_ERROR_DRIVER_TOO_OLD,
              "the NVIDIA driver is too old: %s is of CUDA %d.%d, this build (%s) needs CUDA %d.%d, which is driver %s "
              "or newer on a desktop or server; update the driver, or use a build for an older toolkit",
              library.path, version / 1000, version % 1000 / 10, KW_BUILD_TOOLKIT, KW_BUILD_DRIVER_CUDA / 1000,
              KW_BUILD_DRIVER_CUDA % 1000 / 10, KW_BUILD_DRIVER_LINUX);
}

// A driver from before CUDA 12 has only the older form; it is asked for its version, to say so.
kw_status no_entry_point(const LibCuda& library, int* version_found) {
  CUresult (*get_version)(int*) = nullptr;
  int version = 0;
  auto find = reinterpret_cast<OldProcAddress>(dlsym(library.handle, "cuGetProcAddress"));
  if (find != nullptr && find("cuDriverGetVersion", reinterpret_cast<void**>(&get_version), 2020, 0) == CUDA_SUCCESS &&
      get_version != nullptr && get_version(&version) == CUDA_SUCCESS && version < KW_BUILD_DRIVER_CUDA) {
    *version_found = version;
    return too_old(library, version);
  }
  return fail(KW_ERROR_NO_DRIVER,
              "%s has no cuGetProcAddress_v2, so it is not a driver of CUDA 12.0 or newer (this build needs %d.%d); "
              "update the driver, or remove that file if it is not the driver's own",
              library.path, KW_BUILD_DRIVER_CUDA / 1000, KW_BUILD_DRIVER_CUDA % 1000 / 10);
}

kw_status resolve(const LibCuda& library, const char* name, int version, int driver_version, void** function) {
  ProcAddressResult result = CU_GET_PROC_ADDRESS_SUCCESS;
  const CUresult code = library.find(name, function, version, CU_GET_PROC_ADDRESS_LEGACY_STREAM, &result);
  if (code == CUDA_SUCCESS && result == CU_GET_PROC_ADDRESS_SUCCESS && *function != nullptr) return KW_OK;
  *function = nullptr;
  if (version > KW_BUILD_DRIVER_CUDA) return KW_OK;  // not needed
  if (code == CUDA_ERROR_STUB_LIBRARY) {
    return fail(KW_ERROR_NO_DRIVER,
                "%s is the stub that a CUDA toolkit brings for linking, not a driver; take its directory out of the "
                "library path",
                library.path);
  }
  return fail(
      KW_ERROR_NO_DRIVER,
      "the NVIDIA driver lacks %s of CUDA %d.%d (found %s, which says CUDA %d.%d; cuGetProcAddress returned %d, "
      "query result %d); the driver is damaged or not NVIDIA's: reinstall it",
      name, version / 1000, version % 1000 / 10, library.path, driver_version / 1000, driver_version % 1000 / 10, code,
      static_cast<int>(result));
}

kw_status fill(const LibCuda& library, Driver* filled) {
  KW_TRY(resolve(library, "cuDriverGetVersion", 2020, 0, reinterpret_cast<void**>(&filled->cuDriverGetVersion)));
  const CUresult code = filled->cuDriverGetVersion(&filled->version);
  if (code != CUDA_SUCCESS) {
    return fail(KW_ERROR_NO_DRIVER, "%s does not tell its version: cuDriverGetVersion returned %d%s", library.path,
                code,
                code == CUDA_ERROR_STUB_LIBRARY ? "; it is a toolkit's stub, take it out of the library path" : "");
  }
  if (filled->version < KW_BUILD_DRIVER_CUDA) return too_old(library, filled->version);
#define KW_RESOLVE(name, version_, parameters) \
  KW_TRY(resolve(library, #name, version_, filled->version, reinterpret_cast<void**>(&filled->name)));
  KW_DRIVER_FUNCTIONS(KW_RESOLVE)
#undef KW_RESOLVE
  return KW_OK;
}

// Finds the driver without starting CUDA. `version` is set as far as it is known, also on failure.
kw_status open(int* version) {
  if (__atomic_load_n(&opened, __ATOMIC_ACQUIRE) == 0) {
    KW_TRY(guard_fork());
    const LoaderLock lock;
    if (opened == 0) {
      LibCuda library;
      KW_TRY(find_library(&library));
      library.find = reinterpret_cast<ProcAddress>(dlsym(library.handle, "cuGetProcAddress_v2"));
      if (library.find == nullptr) return no_entry_point(library, version);
      Driver filled = {};
      const kw_status status = fill(library, &filled);
      *version = filled.version;
      KW_TRY(status);
      table = filled;
      __atomic_store_n(&opened, 1, __ATOMIC_RELEASE);
    }
  }
  *version = table.version;
  return KW_OK;
}

kw_status start() {
  mark_cuda_used(true);  // before it is: a fork in the middle of cuInit is one too many
  const CUresult code = table.cuInit(0);
  if (code == CUDA_SUCCESS) return KW_OK;
  mark_cuda_used(false);
  if (code == CUDA_ERROR_NOT_INITIALIZED) {
    return fail(
        KW_ERROR_FORKED,
        "CUDA does not start in this process (cuInit returned CUDA_ERROR_NOT_INITIALIZED): a parent process "
        "used CUDA before fork(); start workers with the spawn or forkserver method, or fork before CUDA is used");
  }
  if (code == CUDA_ERROR_NO_DEVICE) {
    return fail(KW_ERROR_NO_DEVICE,
                "the driver is there (CUDA %d.%d) but sees no GPU; look at nvidia-smi and at CUDA_VISIBLE_DEVICES",
                table.version / 1000, table.version % 1000 / 10);
  }
  return driver_refused(table, "cuInit", code, "starting CUDA");
}

}  // namespace

LoaderLock::LoaderLock() { pthread_mutex_lock(&loader); }
LoaderLock::~LoaderLock() { pthread_mutex_unlock(&loader); }

void reset_loader_lock() {
  const pthread_mutex_t fresh = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
  loader = fresh;
}

kw_status driver(const Driver** found) {
  if (forked()) {
    return fail(KW_ERROR_FORKED,
                "this process was forked from one that had used CUDA, and CUDA does not survive fork(); start workers "
                "with the spawn or forkserver method, or fork before CUDA is used. The CPU path works here");
  }
  if (__atomic_load_n(&initialised, __ATOMIC_ACQUIRE) == 0) {
    int version = 0;
    KW_TRY(open(&version));
    const LoaderLock lock;
    if (initialised == 0) {
      KW_TRY(start());
      __atomic_store_n(&initialised, 1, __ATOMIC_RELEASE);
    }
  }
  *found = &table;
  return KW_OK;
}

kw_status driver_refused(const Driver& driver, const char* function, CUresult code, const char* format, ...) {
  char doing[1024];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(doing, sizeof doing, format, arguments);
  va_end(arguments);
  const char* name = nullptr;
  const char* words = nullptr;
  if (driver.cuGetErrorName(code, &name) != CUDA_SUCCESS || name == nullptr) name = "an error without a name";
  if (driver.cuGetErrorString(code, &words) != CUDA_SUCCESS || words == nullptr) words = "no words";
  return fail(code == CUDA_ERROR_OUT_OF_MEMORY ? KW_ERROR_OUT_OF_MEMORY : KW_ERROR_CUDA, "%s: %s returned %d, %s (%s)",
              doing, function, code, name, words);
}

}  // namespace kw

kw_status kw_driver_version(int32_t* version) {
  if (version == nullptr) return kw::fail(KW_ERROR_INVALID_ARGUMENT, "kw_driver_version: version is NULL");
  *version = 0;
  return kw::open(version);
}
