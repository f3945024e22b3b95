// SPDX-License-Identifier: MIT
#include "torch/shim.h"

#include <dlfcn.h>

#include "core/error.h"
#include "core/fork.h"
#include "core/tensor.h"

namespace kw::torch {
namespace {

constexpr const char* kLibrary = "libtorch_cpu.so";
constexpr const char* kCudaLibrary = "libtorch_cuda.so";

Shim found_shim;
bool ready;  // written last, under the lock of the options, which a fork waits for

using Constant = int32_t (*)();

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

const char* find_numbers(void* library, Shim* s) {
  static const struct {
    const char* name;
    int32_t Shim::* const device;
    int32_t type;
  } kNumbers[] = {
      {"aoti_torch_dtype_float32", nullptr, KW_FLOAT32},
      {"aoti_torch_dtype_float16", nullptr, KW_FLOAT16},
      {"aoti_torch_dtype_bfloat16", nullptr, KW_BFLOAT16},
      {"aoti_torch_dtype_float64", nullptr, KW_FLOAT64},
      {"aoti_torch_dtype_uint8", nullptr, KW_UINT8},
      {"aoti_torch_dtype_int8", nullptr, KW_INT8},
      {"aoti_torch_dtype_int32", nullptr, KW_INT32},
      {"aoti_torch_dtype_float8_e4m3fn", nullptr, KW_FLOAT8_E4M3FN},
      {"aoti_torch_device_type_cpu", &Shim::cpu, 0},
      {"aoti_torch_device_type_cuda", &Shim::cuda, 0},
  };
  for (const auto& one : kNumbers)
    if (!find(library, one.name, one.device != nullptr ? &(s->*one.device) : &s->types[one.type])) return one.name;
  return nullptr;
}

// The first function that is missing, or nullptr.
const char* find_all(void* library, Shim* s) {
#define KW_FIND(member, name, ...) \
  if (!find(library, name, &s->member)) return name;
#define KW_LOOK(member, name, ...) find(library, name, &s->member);
  KW_SHIM_READS(KW_FIND)
  KW_SHIM_WRITES(KW_FIND)
  KW_SHIM_LATER(KW_LOOK)
#undef KW_FIND
#undef KW_LOOK
  find(library, "_ZdlPv", &s->delete_operator);
  if (s->delete_value == nullptr && s->delete_operator == nullptr) return "operator delete";
  void* const cuda = dlopen(kCudaLibrary, RTLD_LAZY | RTLD_NOLOAD);
  if (cuda != nullptr) find(cuda, "aoti_torch_get_current_cuda_stream", &s->stream);
  return find_numbers(library, s);
}

}  // namespace

const Shim& shim() { return found_shim; }

kw_status open_shim(const char* function, const Shim** shim) {
  *shim = &found_shim;
  if (__atomic_load_n(&ready, __ATOMIC_ACQUIRE)) return KW_OK;
  void* const library = dlopen(kLibrary, RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr) return fail(KW_ERROR_UNSUPPORTED, "%s: this process has not loaded %s", function, kLibrary);
  Shim found{};
  const char* const missing = find_all(library, &found);
  if (missing != nullptr)
    return fail(KW_ERROR_UNSUPPORTED, "%s: the %s of this process has no %s; a newer torch has", function, kLibrary,
                missing);
  KW_TRY(guard_fork());
  hold_options();
  if (!ready) found_shim = found;
  __atomic_store_n(&ready, true, __ATOMIC_RELEASE);
  release_options();
  return KW_OK;
}

bool read(Handle tensor, bool written, kw_tensor* found) {
  const Shim& s = found_shim;
  int32_t dtype = 0, type = 0, index = 0;
  int64_t bytes = 0;
  bool defined = false;
  if (s.defined(tensor, &defined) != 0 || !defined || s.dtype(tensor, &dtype) != 0 ||
      s.device_type(tensor, &type) != 0 || s.dims(tensor, &found->dims) != 0 || s.sizes(tensor, &found->sizes) != 0 ||
      s.strides(tensor, &found->strides) != 0)
    return false;
  if (type == s.cuda && (s.device_index(tensor, &index) != 0 || index < 0)) return false;
  if (type != s.cpu && type != s.cuda) return false;
  if (written || s.const_data == nullptr) {
    if (s.data(tensor, &found->data) != 0) return false;
  } else {
    const void* address = nullptr;
    if (s.const_data(tensor, &address) != 0) return false;
    found->data = const_cast<void*>(address);
  }
  if (s.storage_size(tensor, &bytes) != 0) return false;
  if (bytes == 0) found->data = nullptr;  // a view of freed memory has an address that is its offset
  found->kind = KW_TENSOR;
  found->device = type == s.cpu ? KW_CPU : index;
  found->dtype = kOtherType;
  for (int32_t known = 0; known < kTypes; ++known)
    if (dtype == s.types[known]) found->dtype = known;
  return true;
}

}  // namespace kw::torch
