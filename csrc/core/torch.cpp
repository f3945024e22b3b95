// SPDX-License-Identifier: MIT
// Reads tensors of the torch that the process has loaded, by the C functions that its libtorch_cpu.so has for the code
// that AOTInductor compiles. They take an AtenTensorHandle, which points to an at::Tensor, which is one pointer to a
// c10::TensorImpl: the address that `_cdata` has in Python. Python takes about a tenth of a microsecond for each
// thing that it is asked, and a call asks a dozen or more.
#include <dlfcn.h>

#include "core/error.h"
#include "core/fork.h"
#include "core/tensor.h"

namespace kw::torch {
namespace {

using Handle = const void* const*;  // AtenTensorHandle
using Status = int32_t;             // AOTITorchError: 0, or what an exception became
using Constant = int32_t (*)();

constexpr int32_t kTypes = KW_FLOAT8_E4M3FN + 1;

struct Functions {
  Status (*data)(Handle, void**);
  Status (*storage_size)(Handle, int64_t*);
  Status (*sizes)(Handle, const int64_t**);
  Status (*strides)(Handle, const int64_t**);
  Status (*dims)(Handle, int64_t*);
  Status (*dtype)(Handle, int32_t*);
  Status (*device_type)(Handle, int32_t*);
  Status (*device_index)(Handle, int32_t*);
  int32_t types[kTypes];  // torch's numbers of the element types here, by theirs
  int32_t cpu, cuda;
};

Functions functions;
bool ready;  // written last, under the lock of the options, which a fork waits for

template <typename Function>
bool find(void* library, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(dlsym(library, name));
  return *function != nullptr;
}

bool find(void* library, const char* name, int32_t* number) {
  Constant constant = nullptr;
  if (!find(library, name, &constant)) return false;
  *number = constant();
  return true;
}

bool find_all(void* library, Functions* f) {
  return find(library, "aoti_torch_get_data_ptr", &f->data) &&
         find(library, "aoti_torch_get_storage_size", &f->storage_size) &&
         find(library, "aoti_torch_get_sizes", &f->sizes) && find(library, "aoti_torch_get_strides", &f->strides) &&
         find(library, "aoti_torch_get_dim", &f->dims) && find(library, "aoti_torch_get_dtype", &f->dtype) &&
         find(library, "aoti_torch_get_device_type", &f->device_type) &&
         find(library, "aoti_torch_get_device_index", &f->device_index) &&
         find(library, "aoti_torch_dtype_float32", &f->types[KW_FLOAT32]) &&
         find(library, "aoti_torch_dtype_float16", &f->types[KW_FLOAT16]) &&
         find(library, "aoti_torch_dtype_bfloat16", &f->types[KW_BFLOAT16]) &&
         find(library, "aoti_torch_dtype_float64", &f->types[KW_FLOAT64]) &&
         find(library, "aoti_torch_dtype_uint8", &f->types[KW_UINT8]) &&
         find(library, "aoti_torch_dtype_int8", &f->types[KW_INT8]) &&
         find(library, "aoti_torch_dtype_int32", &f->types[KW_INT32]) &&
         find(library, "aoti_torch_dtype_float8_e4m3fn", &f->types[KW_FLOAT8_E4M3FN]) &&
         find(library, "aoti_torch_device_type_cpu", &f->cpu) && find(library, "aoti_torch_device_type_cuda", &f->cuda);
}

}  // namespace

bool shared() { return __atomic_load_n(&ready, __ATOMIC_ACQUIRE); }

bool reads(const void* tensor, kw_tensor* found) {
  const Handle handle = &tensor;
  int32_t dtype = 0, type = 0, index = 0;
  int64_t bytes = 0;
  if (functions.dtype(handle, &dtype) != 0 || functions.device_type(handle, &type) != 0 ||
      functions.dims(handle, &found->dims) != 0 || functions.sizes(handle, &found->sizes) != 0 ||
      functions.strides(handle, &found->strides) != 0)
    return false;
  if (type == functions.cuda && (functions.device_index(handle, &index) != 0 || index < 0)) return false;
  if ((type != functions.cpu && type != functions.cuda) || functions.data(handle, &found->data) != 0) return false;
  // A view of freed memory has an address that is its offset.
  if (functions.storage_size(handle, &bytes) != 0) return false;
  if (bytes == 0) found->data = nullptr;
  found->kind = KW_TENSOR;
  found->device = type == functions.cpu ? KW_CPU : index;
  found->dtype = kOtherType;
  for (int32_t known = 0; known < kTypes; ++known)
    if (dtype == functions.types[known]) found->dtype = known;
  return true;
}

}  // namespace kw::torch

kw_status kw_share_torch(void) {
  using namespace kw::torch;
  if (shared()) return KW_OK;
  constexpr const char* kLibrary = "libtorch_cpu.so";
  void* const library = dlopen(kLibrary, RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr)
    return kw::fail(KW_ERROR_UNSUPPORTED, "kw_share_torch: this process has not loaded %s", kLibrary);
  Functions found{};
  if (!find_all(library, &found))
    return kw::fail(KW_ERROR_UNSUPPORTED, "kw_share_torch: the %s of this process lacks functions that read a tensor",
                    kLibrary);
  const kw_status status = kw::guard_fork();
  if (status != KW_OK) return status;
  kw::hold_options();
  if (!shared()) functions = found;
  __atomic_store_n(&ready, true, __ATOMIC_RELEASE);
  kw::release_options();
  return KW_OK;
}
