// SPDX-License-Identifier: MIT
// Every driver function the library calls, once: name, the CUDA version whose ABI the types here follow, parameters.
// The version matters: behind one name the driver keeps several ABIs, and cuGetProcAddress gives the one that is asked
// for. Declared here instead of taken from cuda.h, so that one source builds without any toolkit; tests/cpp compares
// sizes, offsets and numbers with NVIDIA's header where one is at hand.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace kw {

using CUresult = int;
using CUdevice = int;
using CUcontext = struct CUctx_st*;
using CUstream = struct CUstream_st*;
using CUlibrary = struct CUlib_st*;
using CUkernel = struct CUkern_st*;
using CUfunction = struct CUfunc_st*;

enum CudaError : int {
  CUDA_SUCCESS = 0,
  CUDA_ERROR_OUT_OF_MEMORY = 2,
  CUDA_ERROR_NOT_INITIALIZED = 3,
  CUDA_ERROR_STUB_LIBRARY = 34,
  CUDA_ERROR_NO_DEVICE = 100,
  CUDA_ERROR_INVALID_DEVICE = 101,
  CUDA_ERROR_UNSUPPORTED_PTX_VERSION = 222,
  CUDA_ERROR_NOT_FOUND = 500,
};

enum DeviceAttribute : int {
  CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16,
  CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE = 38,
  CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR = 39,
  CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
  CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76,
  CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR = 81,
  CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97,
};

enum FunctionAttribute : int {
  CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8,
  CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED = 14,
};

enum JitOption : int { CU_JIT_ERROR_LOG_BUFFER = 5, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES = 6 };

enum CaptureMode : int { CU_STREAM_CAPTURE_MODE_RELAXED = 2 };

enum ProcAddressFlags : uint64_t { CU_GET_PROC_ADDRESS_LEGACY_STREAM = 1 };

enum ProcAddressResult : int {
  CU_GET_PROC_ADDRESS_SUCCESS = 0,
  CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND = 1,
  CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT = 2,
};

enum TensorMapDataType : int {
  CU_TENSOR_MAP_DATA_TYPE_UINT8 = 0,
  CU_TENSOR_MAP_DATA_TYPE_INT32 = 3,
  CU_TENSOR_MAP_DATA_TYPE_FLOAT16 = 6,
  CU_TENSOR_MAP_DATA_TYPE_FLOAT32 = 7,
  CU_TENSOR_MAP_DATA_TYPE_FLOAT64 = 8,
  CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 = 9,
};

enum TensorMapInterleave : int { CU_TENSOR_MAP_INTERLEAVE_NONE = 0 };

enum TensorMapSwizzle : int {
  CU_TENSOR_MAP_SWIZZLE_NONE = 0,
  CU_TENSOR_MAP_SWIZZLE_32B = 1,
  CU_TENSOR_MAP_SWIZZLE_64B = 2,
  CU_TENSOR_MAP_SWIZZLE_128B = 3,
};

enum TensorMapPromotion : int { CU_TENSOR_MAP_L2_PROMOTION_NONE = 0, CU_TENSOR_MAP_L2_PROMOTION_L2_128B = 2 };

enum TensorMapFill : int { CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE = 0 };

enum LaunchAttributeId : int {
  CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION = 4,
  CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION = 6,
};

struct CUlaunchAttribute {
  LaunchAttributeId id;
  char pad[4];
  union {
    char bytes[64];
    struct {
      unsigned int x, y, z;
    } clusterDim;
    int programmaticStreamSerializationAllowed;
  } value;
};
static_assert(sizeof(CUlaunchAttribute) == 72, "the driver's layout");

struct CUlaunchConfig {
  unsigned int gridDimX, gridDimY, gridDimZ;
  unsigned int blockDimX, blockDimY, blockDimZ;
  unsigned int sharedMemBytes;
  CUstream hStream;
  CUlaunchAttribute* attrs;
  unsigned int numAttrs;
};
static_assert(sizeof(CUlaunchConfig) == 56, "the driver's layout");

// The two forms of the one function that is found by dlsym: of CUDA 12.0, and of 11.3 for a driver that is too old.
using ProcAddress = CUresult (*)(const char*, void**, int, uint64_t, ProcAddressResult*);
using OldProcAddress = CUresult (*)(const char*, void**, int, uint64_t);

}  // namespace kw

// A function that is newer than the oldest driver the build accepts is null where the driver lacks it; callers ask.
#define KW_DRIVER_FUNCTIONS(X)                                                                                       \
  X(cuDriverGetVersion, 2020, (int* version))                                                                        \
  X(cuInit, 2000, (unsigned int flags))                                                                              \
  X(cuGetErrorName, 6000, (CUresult error, const char** text))                                                       \
  X(cuGetErrorString, 6000, (CUresult error, const char** text))                                                     \
  X(cuDeviceGetCount, 2000, (int* count))                                                                            \
  X(cuDeviceGet, 2000, (CUdevice * device, int ordinal))                                                             \
  X(cuDeviceGetName, 2000, (char* name, int length, CUdevice device))                                                \
  X(cuDeviceGetAttribute, 2000, (int* value, DeviceAttribute attribute, CUdevice device))                            \
  X(cuDevicePrimaryCtxRetain, 7000, (CUcontext * context, CUdevice device))                                          \
  X(cuCtxGetCurrent, 4000, (CUcontext * context))                                                                    \
  X(cuCtxPushCurrent, 4000, (CUcontext context))                                                                     \
  X(cuCtxPopCurrent, 4000, (CUcontext * context))                                                                    \
  X(cuThreadExchangeStreamCaptureMode, 10010, (CaptureMode * mode))                                                  \
  X(cuLibraryLoadData, 12000,                                                                                        \
    (CUlibrary * library, const void* code, JitOption* jit, void** jit_values, unsigned int jit_count, int* options, \
     void** values, unsigned int count))                                                                             \
  X(cuLibraryGetKernel, 12000, (CUkernel * kernel, CUlibrary library, const char* name))                             \
  X(cuKernelGetFunction, 12000, (CUfunction * function, CUkernel kernel))                                            \
  X(cuKernelGetParamInfo, 12040, (CUkernel kernel, size_t index, size_t* offset, size_t* size))                      \
  X(cuTensorMapEncodeTiled, 12000,                                                                                   \
    (void* map, TensorMapDataType type, uint32_t rank, void* from, const uint64_t* sizes, const uint64_t* pitches,   \
     const uint32_t* box, const uint32_t* every, TensorMapInterleave interleave, TensorMapSwizzle swizzle,           \
     TensorMapPromotion promotion, TensorMapFill fill))                                                              \
  X(cuFuncSetAttribute, 9000, (CUfunction function, FunctionAttribute attribute, int value))                         \
  X(cuLaunchKernelEx, 11060, (const CUlaunchConfig* config, CUfunction function, void** parameters, void** extra))
