// SPDX-License-Identifier: MIT
// Our declarations of the driver's ABI against NVIDIA's own header, where the build found one.
#include "core/driver_table.h"

#if __has_include(<cudaTypedefs.h>)
#include <cuda.h>
#include <cudaTypedefs.h>
#endif
#include <stddef.h>

#include "../check.h"

#ifdef CUDA_VERSION

#define SAME_NUMBER(name) static_assert(static_cast<long>(kw::name) == static_cast<long>(::name), #name)
SAME_NUMBER(CUDA_SUCCESS);
SAME_NUMBER(CUDA_ERROR_OUT_OF_MEMORY);
SAME_NUMBER(CUDA_ERROR_NOT_INITIALIZED);
SAME_NUMBER(CUDA_ERROR_STUB_LIBRARY);
SAME_NUMBER(CUDA_ERROR_NO_DEVICE);
SAME_NUMBER(CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
SAME_NUMBER(CUDA_ERROR_NOT_FOUND);
SAME_NUMBER(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
SAME_NUMBER(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
SAME_NUMBER(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR);
SAME_NUMBER(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
SAME_NUMBER(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
SAME_NUMBER(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR);
SAME_NUMBER(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
SAME_NUMBER(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
SAME_NUMBER(CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED);
SAME_NUMBER(CU_JIT_ERROR_LOG_BUFFER);
SAME_NUMBER(CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES);
SAME_NUMBER(CU_STREAM_CAPTURE_MODE_RELAXED);
SAME_NUMBER(CU_GET_PROC_ADDRESS_LEGACY_STREAM);
SAME_NUMBER(CU_GET_PROC_ADDRESS_SUCCESS);
SAME_NUMBER(CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
SAME_NUMBER(CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
SAME_NUMBER(CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION);
SAME_NUMBER(CU_TENSOR_MAP_DATA_TYPE_UINT8);
SAME_NUMBER(CU_TENSOR_MAP_DATA_TYPE_FLOAT32);
SAME_NUMBER(CU_TENSOR_MAP_INTERLEAVE_NONE);
SAME_NUMBER(CU_TENSOR_MAP_SWIZZLE_NONE);
SAME_NUMBER(CU_TENSOR_MAP_SWIZZLE_128B);
SAME_NUMBER(CU_TENSOR_MAP_L2_PROMOTION_NONE);
SAME_NUMBER(CU_TENSOR_MAP_L2_PROMOTION_L2_128B);
SAME_NUMBER(CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
SAME_NUMBER(CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION);

#define SAME_PLACE(type, field) static_assert(offsetof(kw::type, field) == offsetof(::type, field), #field)
static_assert(sizeof(kw::CUlaunchConfig) == sizeof(::CUlaunchConfig));
SAME_PLACE(CUlaunchConfig, gridDimX);
SAME_PLACE(CUlaunchConfig, blockDimX);
SAME_PLACE(CUlaunchConfig, sharedMemBytes);
SAME_PLACE(CUlaunchConfig, hStream);
SAME_PLACE(CUlaunchConfig, attrs);
SAME_PLACE(CUlaunchConfig, numAttrs);
static_assert(sizeof(kw::CUlaunchAttribute) == sizeof(::CUlaunchAttribute));
SAME_PLACE(CUlaunchAttribute, id);
SAME_PLACE(CUlaunchAttribute, value);
SAME_PLACE(CUlaunchAttribute, value.clusterDim.x);
SAME_PLACE(CUlaunchAttribute, value.clusterDim.z);
SAME_PLACE(CUlaunchAttribute, value.programmaticStreamSerializationAllowed);

// NVIDIA's header has a type for each ABI of each function, named after the version: PFN_cuInit_v2000. That ours names
// one that exists is checked by naming it; the number of parameters and their sizes by comparing.
template <class... A>
struct Sizes {
  static constexpr size_t list[] = {sizeof(A)..., 0};
};
template <class... A, class... B>
constexpr bool same_parameters(int (*)(A...), CUresult (*)(B...)) {
  if (sizeof...(A) != sizeof...(B)) return false;
  for (size_t i = 0; i < sizeof...(A); ++i) {
    if (Sizes<A...>::list[i] != Sizes<B...>::list[i]) return false;
  }
  return true;
}
#define KW_COMPARE(name, version, parameters) \
  static_assert(same_parameters(static_cast<kw::CUresult(*) parameters>(nullptr), PFN_##name##_v##version{}), #name);
namespace kw {
KW_DRIVER_FUNCTIONS(KW_COMPARE)
}

#endif

CASE(same_as_nvidias_header) {
#ifdef CUDA_VERSION
  CHECK(CUDA_VERSION >= 12000, "cuda.h is of %d", CUDA_VERSION);
#else
  skip("the build found no cuda.h with cudaTypedefs.h");
#endif
}

RUN_CASES()
