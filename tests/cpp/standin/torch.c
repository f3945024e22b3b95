// SPDX-License-Identifier: MIT
// A STAND-IN for torch's libtorch_cpu.so, for tests: the C functions that read a tensor, of tensors that are the struct
// of torch.h. Built with -D<function>=<another name> it lacks one.
#include "torch.h"

#include <stddef.h>

#define EXPORT __attribute__((visibility("default")))

// What an AtenTensorHandle points to is one pointer.
typedef const struct StandinTensor* const* Handle;

#define READS(function, type, member, number)            \
  EXPORT int32_t function(Handle handle, type* result) { \
    const struct StandinTensor* const tensor = *handle;  \
    if (tensor->fails == (number)) return 1;             \
    *result = tensor->member;                            \
    return 0;                                            \
  }

READS(aoti_torch_get_data_ptr, void*, data, 1)
READS(aoti_torch_get_sizes, const int64_t*, sizes, 2)
READS(aoti_torch_get_strides, const int64_t*, strides, 3)
READS(aoti_torch_get_dim, int64_t, dims, 4)
READS(aoti_torch_get_dtype, int32_t, dtype, 5)
READS(aoti_torch_get_device_type, int32_t, device_type, 6)
READS(aoti_torch_get_device_index, int32_t, device_index, 7)
READS(aoti_torch_get_storage_size, int64_t, bytes, 8)

#define IS(function, number) \
  EXPORT int32_t function(void) { return number; }

IS(aoti_torch_dtype_float32, STANDIN_FLOAT32)
IS(aoti_torch_dtype_float16, STANDIN_FLOAT16)
IS(aoti_torch_dtype_bfloat16, STANDIN_BFLOAT16)
IS(aoti_torch_dtype_float64, STANDIN_FLOAT64)
IS(aoti_torch_dtype_uint8, STANDIN_UINT8)
IS(aoti_torch_dtype_int8, STANDIN_INT8)
IS(aoti_torch_dtype_int32, STANDIN_INT32)
IS(aoti_torch_dtype_float8_e4m3fn, STANDIN_FLOAT8_E4M3FN)
IS(aoti_torch_device_type_cpu, STANDIN_CPU)
IS(aoti_torch_device_type_cuda, STANDIN_CUDA)
