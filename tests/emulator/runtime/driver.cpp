// SPDX-License-Identifier: MIT
// An EMULATOR of NVIDIA's driver, for tests: a libcuda.so.1 whose device is the CPU. The kernels it runs are those of
// the cubin it is given, by name; their code is csrc/ops compiled for the host (build.py), in the image of the cubin's
// architecture. It is stricter than a GPU, and says in the words of an error what a kernel did wrong.
//
//   KW_EMULATOR_DEVICES=9.0/132/50,…   capability, multiprocessors and MiB of L2 (0.25, say) of each device
//   KW_EMULATOR_IMAGES=directory       <architecture>.so, the images
//   KW_EMULATOR_IDLE=1                 kernels are launched and do nothing
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../cpp/standin/real_image.h"
#include "core/driver_table.h"
#include "machine.h"

namespace {

using namespace kw;

#define EXPORT extern "C" __attribute__((visibility("default")))

constexpr int kVersion = 13000;
constexpr int kInvalid = 1, kNoDevice = 100, kInvalidDevice = 101, kNotFound = 500, kLaunchFailed = 719;
// By default 48 KB with the static part, of which a kernel here says nothing before it runs: the most it may have.
constexpr int kSharedByDefault = (48 << 10) - static_cast<int>(emulator::kMostStatic), kMostShared = 227 << 10;

struct DeviceFacts {
  int capability, multiprocessors, l2;
};
struct LoadedImage {
  real_image cubin;
  const EmulatedKernel* const* tables;
};
struct KernelOnDevice {
  const EmulatedKernel* kernel;
  int shared, big_clusters, launches;
};

DeviceFacts devices[8];
int device_count;
thread_local CUcontext contexts[16];
thread_local int depth;
KernelOnDevice started[2048];  // every kernel that was asked for
int started_count;
int schedule_mode = -1, launches;
bool rehearsing;
pthread_mutex_t one_launch = PTHREAD_MUTEX_INITIALIZER;

// A context is its device's number, and one.
CUcontext context_of(int device) { return reinterpret_cast<CUcontext>(static_cast<intptr_t>(device) + 1); }
int current_device() { return static_cast<int>(reinterpret_cast<intptr_t>(contexts[depth - 1])) - 1; }

CUresult cuDriverGetVersion(int* version) {
  *version = kVersion;
  return CUDA_SUCCESS;
}

CUresult cuInit(unsigned) {
  const char* text = getenv("KW_EMULATOR_DEVICES");
  device_count = 0;
  rehearsing = getenv("KW_EMULATOR_IDLE") != nullptr;
  for (int used = 0; text != nullptr && *text != '\0' && device_count < 8; text += used + (text[used] == ',')) {
    int major = 0, minor = 0, multiprocessors = 0;
    double l2 = 0.0;
    if (sscanf(text, "%d.%d/%d/%lf%n", &major, &minor, &multiprocessors, &l2, &used) < 4) return kInvalid;
    devices[device_count++] = {major * 10 + minor, multiprocessors, static_cast<int>(l2 * (1 << 20))};
  }
  return device_count > 0 ? CUDA_SUCCESS : kNoDevice;
}

CUresult cuGetErrorName(CUresult code, const char** text) {
  *text = code == kLaunchFailed ? "CUDA_ERROR_LAUNCH_FAILED" : "an error of the emulator";
  return CUDA_SUCCESS;
}

CUresult cuGetErrorString(CUresult code, const char** text) {
  *text = code == kLaunchFailed ? emulator::message() : "of the emulating driver";
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int* count) {
  *count = device_count;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  *device = ordinal;
  return ordinal >= 0 && ordinal < device_count ? CUDA_SUCCESS : kInvalidDevice;
}

CUresult cuDeviceGetName(char* name, int length, CUdevice) {
  snprintf(name, static_cast<size_t>(length), "the CPU, emulating");
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int* value, DeviceAttribute attribute, CUdevice device) {
  const DeviceFacts& facts = devices[device];
  switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
      *value = facts.multiprocessors;
      break;
    case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE:
      *value = facts.l2;
      break;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR:
      *value = 2048;
      break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
      *value = facts.capability / 10;
      break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
      *value = facts.capability % 10;
      break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR:
      *value = kMostShared + (1 << 10);
      break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
      *value = kMostShared;
      break;
    default:
      return kInvalid;
  }
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  *context = context_of(device);
  return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext* context) {
  *context = depth > 0 ? contexts[depth - 1] : nullptr;
  return CUDA_SUCCESS;
}

CUresult cuCtxPushCurrent(CUcontext context) {
  if (depth == 16) return kInvalid;
  contexts[depth++] = context;
  return CUDA_SUCCESS;
}

CUresult cuCtxPopCurrent(CUcontext* context) {
  if (depth == 0) return kInvalid;
  *context = contexts[--depth];
  return CUDA_SUCCESS;
}

CUresult cuThreadExchangeStreamCaptureMode(CaptureMode*) { return CUDA_SUCCESS; }

// The tables of an image, one an operator; or null, with the reason on the standard error.
const EmulatedKernel* const* open_image(const char* path) {
  void* image = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (image == nullptr) {
    fprintf(stderr, "emulating driver: %s\n", dlerror());
    return nullptr;
  }
  void* tables = dlsym(image, "emulated_kernels");
  emulator::image_lies_at(tables);
  return static_cast<const EmulatedKernel* const*>(tables);
}

const EmulatedKernel* find(const EmulatedKernel* const* tables, const char* name) {
  for (; tables != nullptr && *tables != nullptr; ++tables) {
    for (const EmulatedKernel* kernel = *tables; kernel->name != nullptr; ++kernel) {
      if (strcmp(kernel->name, name) == 0) return kernel;
    }
  }
  return nullptr;
}

CUresult cuLibraryLoadData(CUlibrary* library, const void* code, JitOption*, void**, unsigned, int*, void**, unsigned) {
  auto* image = static_cast<LoadedImage*>(calloc(1, sizeof(LoadedImage)));
  if (image == nullptr || read_real(&image->cubin, static_cast<const char*>(code)) == 0) return kInvalid;
  const char* directory = getenv("KW_EMULATOR_IMAGES");
  char path[4096];
  snprintf(path, sizeof path, "%s/%d.so", directory == nullptr ? "." : directory, image->cubin.arch);
  image->tables = open_image(path);
  *library = reinterpret_cast<CUlibrary>(image);
  return image->tables == nullptr ? kNotFound : CUDA_SUCCESS;
}

CUresult cuLibraryGetKernel(CUkernel* kernel, CUlibrary library, const char* name) {
  const auto* image = reinterpret_cast<const LoadedImage*>(library);
  if (has_kernel(&image->cubin, devices[current_device()].capability, name) == 0) return kNotFound;
  const EmulatedKernel* found = find(image->tables, name);
  *kernel = reinterpret_cast<CUkernel>(const_cast<EmulatedKernel*>(found));
  return found == nullptr ? kNotFound : CUDA_SUCCESS;
}

CUresult cuKernelGetFunction(CUfunction* function, CUkernel kernel) {
  if (depth == 0 || started_count == sizeof started / sizeof started[0]) return kInvalid;
  KernelOnDevice& fresh = started[started_count++];
  fresh = {reinterpret_cast<const EmulatedKernel*>(kernel), kSharedByDefault, 0, 0};
  *function = reinterpret_cast<CUfunction>(&fresh);
  return CUDA_SUCCESS;
}

CUresult cuKernelGetParamInfo(CUkernel kernel, size_t index, size_t* offset, size_t* size) {
  if (index > 0) return kInvalid;
  *offset = 0;
  *size = reinterpret_cast<const EmulatedKernel*>(kernel)->parameter_bytes;
  return CUDA_SUCCESS;
}

CUresult cuTensorMapEncodeTiled(void* map, TensorMapDataType type, uint32_t rank, void* from, const uint64_t* sizes,
                                const uint64_t* pitches, const uint32_t* box, const uint32_t* every,
                                TensorMapInterleave interleave, TensorMapSwizzle swizzle, TensorMapPromotion,
                                TensorMapFill fill) {
  const bool plain = interleave == CU_TENSOR_MAP_INTERLEAVE_NONE && fill == CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE;
  const auto address = reinterpret_cast<uintptr_t>(from);
  return plain && emulator::describe_tensor(map, type, rank, address, sizes, pitches, box, every, swizzle)
             ? CUDA_SUCCESS
             : kInvalid;
}

CUresult cuFuncSetAttribute(CUfunction function, FunctionAttribute attribute, int value) {
  auto* kernel = reinterpret_cast<KernelOnDevice*>(function);
  if (attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES && value <= kMostShared) {
    kernel->shared = value;
  } else if (attribute == CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED) {
    kernel->big_clusters = value;
  } else {
    return kInvalid;
  }
  return CUDA_SUCCESS;
}

bool run_alone(const emulator::Launch& asked) {
  pthread_mutex_lock(&one_launch);
  emulator::Launch launch = asked;
  const int kind = schedule_mode >= 0 ? schedule_mode : launches++ % 4;
  launch.mode = {(kind & 1) != 0, (kind & 2) != 0};
  const bool right = emulator::run(launch);
  pthread_mutex_unlock(&one_launch);
  return right;
}

bool possible(const emulator::Launch& launch, const KernelOnDevice& on) {
  const bool fits = launch.threads > 0 && (on.kernel->max_threads == 0 || launch.threads <= on.kernel->max_threads) &&
                    launch.threads <= emulator::kMaxThreads && launch.shared <= static_cast<unsigned>(on.shared);
  const unsigned most = on.big_clusters != 0 ? emulator::kMaxCluster : 8;
  return fits && launch.grid > 0 && launch.cluster <= most && launch.grid % launch.cluster == 0;
}

CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction function, void** parameters, void**) {
  auto* on = reinterpret_cast<KernelOnDevice*>(function);
  emulator::Launch launch = {
      on->kernel, parameters[0], config->gridDimX, config->blockDimX, 1, config->sharedMemBytes, false, {}};
  for (unsigned i = 0; i < config->numAttrs; ++i) {
    const CUlaunchAttribute& attribute = config->attrs[i];
    if (attribute.id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) launch.cluster = attribute.value.clusterDim.x;
    if (attribute.id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION) launch.overlap = true;
  }
  if (config->gridDimY * config->gridDimZ * config->blockDimY * config->blockDimZ != 1) return kInvalid;
  if (!possible(launch, *on)) return kInvalid;
  ++on->launches;
  return rehearsing || run_alone(launch) ? CUDA_SUCCESS : kLaunchFailed;
}

struct Entry {
  const char* name;
  int version;
  void* function;
};
// The types are the host library's: one that differs does not compile.
#define ENTRY(name, version, parameters) \
  {#name, version, reinterpret_cast<void*>(static_cast<CUresult(*) parameters>(&name))},
const Entry entries[] = {KW_DRIVER_FUNCTIONS(ENTRY)};

}  // namespace

EXPORT int cuGetProcAddress_v2(const char* name, void** function, int version, uint64_t, int* result) {
  for (const Entry& entry : entries) {
    if (strcmp(entry.name, name) != 0 || entry.version > version) continue;
    *function = entry.function;
    *result = 0;
    return CUDA_SUCCESS;
  }
  *result = 1;
  return kNotFound;
}

// For tests. In what order things happen: two bits, or by turns (-1).
EXPORT void emulator_schedule_mode(int kind) { schedule_mode = kind; }

// Kernels are launched but do not run; and which were launched before is forgotten.
EXPORT void emulator_rehearse(int yes) {
  rehearsing = yes != 0;
  for (int i = 0; i < started_count; ++i) started[i].launches = 0;
}

// The name of the launched kernel number `index`, or null past the last.
EXPORT const char* emulator_launched(int index) {
  for (int i = 0; i < started_count; ++i) {
    if (started[i].launches > 0 && index-- == 0) return started[i].kernel->name;
  }
  return nullptr;
}

// A kernel of an image by itself; null, or what was wrong.
EXPORT const char* emulator_run(const char* image, const char* name, unsigned grid, unsigned threads, unsigned cluster,
                                unsigned shared, int overlap, const void* parameters) {
  const EmulatedKernel* kernel = find(open_image(image), name);
  if (kernel == nullptr) return "there is no such kernel";
  return run_alone({kernel, parameters, grid, threads, cluster, shared, overlap != 0, {}}) ? nullptr
                                                                                           : emulator::message();
}
