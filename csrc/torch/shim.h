// SPDX-License-Identifier: MIT
// The functions of torch's stable C shim that kernels registered with torch's dispatcher need, found by name in the
// libtorch_cpu.so that the process has loaded: no header of torch, nothing linked. They are declared here as torch
// documents them; what a release lacks is nullptr, and kernels that need it are not registered.
#pragma once

#include <kernelwright/base.h>
#include <stddef.h>

namespace kw::torch {

using Value = uint64_t;  // StableIValue: an argument or a result of a boxed kernel
using Handle = void*;    // of a tensor, a list, a string, a library
using Status = int32_t;  // 0, or what an exception became
using Boxed = void (*)(Value*, uint64_t, uint64_t);

constexpr int32_t kTypes = KW_FLOAT8_E4M3FN + 1;

// member, name in torch, type. Those that read tensors; torch has had them since its oldest release served here.
#define KW_SHIM_READS(X)                                                       \
  X(defined, "aoti_torch_is_defined", Status (*)(Handle, bool*))               \
  X(data, "aoti_torch_get_data_ptr", Status (*)(Handle, void**))               \
  X(storage_size, "aoti_torch_get_storage_size", Status (*)(Handle, int64_t*)) \
  X(sizes, "aoti_torch_get_sizes", Status (*)(Handle, const int64_t**))        \
  X(strides, "aoti_torch_get_strides", Status (*)(Handle, const int64_t**))    \
  X(dims, "aoti_torch_get_dim", Status (*)(Handle, int64_t*))                  \
  X(dtype, "aoti_torch_get_dtype", Status (*)(Handle, int32_t*))               \
  X(device_type, "aoti_torch_get_device_type", Status (*)(Handle, int32_t*))   \
  X(device_index, "aoti_torch_get_device_index", Status (*)(Handle, int32_t*))

// Those that make results and registrations, without which there are no kernels in C.
#define KW_SHIM_WRITES(X)                                                                                            \
  X(empty, "aoti_torch_empty_strided",                                                                               \
    Status (*)(int64_t, const int64_t*, const int64_t*, int32_t, int32_t, int32_t, Handle*))                         \
  X(delete_tensor, "aoti_torch_delete_tensor_object", Status (*)(Handle))                                            \
  X(init_fragment, "aoti_torch_library_init_fragment", Status (*)(const char*, const char*, uint32_t, Handle*))      \
  X(init_impl, "aoti_torch_library_init_impl", Status (*)(const char*, const char*, const char*, uint32_t, Handle*)) \
  X(def, "aoti_torch_library_def", Status (*)(Handle, const char*))                                                  \
  X(impl, "torch_library_impl", Status (*)(Handle, const char*, Boxed, uint64_t))                                    \
  X(call, "torch_call_dispatcher", Status (*)(const char*, const char*, Value*, uint64_t))                           \
  X(check, "aoti_torch_check", void (*)(bool, const char*, const char*, uint32_t, const char*))                      \
  X(threads, "torch_get_num_threads", Status (*)(uint32_t*))                                                         \
  X(list_size, "torch_list_size", Status (*)(Handle, size_t*))                                                       \
  X(list_item, "torch_list_get_item", Status (*)(Handle, size_t, Value*))                                            \
  X(delete_list, "torch_delete_list", Status (*)(Handle))                                                            \
  X(string, "torch_string_c_str", Status (*)(Handle, const char**))                                                  \
  X(delete_string, "torch_delete_string", Status (*)(Handle))

// Those that later releases have.
#define KW_SHIM_LATER(X)                                                      \
  X(const_data, "torch_get_const_data_ptr", Status (*)(Handle, const void**)) \
  X(delete_value, "torch_delete_stable_ivalue", Status (*)(Value*))           \
  X(what, "torch_exception_get_what_without_backtrace", const char* (*)())

template <typename T>
struct Same {
  using Type = T;
};

struct Shim {
#define KW_MEMBER(member, name, ...) Same<__VA_ARGS__>::Type member;
  KW_SHIM_READS(KW_MEMBER)
  KW_SHIM_WRITES(KW_MEMBER)
  KW_SHIM_LATER(KW_MEMBER)
#undef KW_MEMBER
  void (*delete_operator)(void*);     // C++'s own: what frees an optional before delete_value was there
  Status (*stream)(int32_t, void**);  // of a CUDA device, as torch has it now; nullptr in a build without CUDA
  int32_t types[kTypes];              // torch's numbers of the element types here, by theirs
  int32_t cpu, cuda;                  // torch's numbers of devices
};

// Finds them, once; KW_ERROR_UNSUPPORTED where the process has no torch, or an older one.
kw_status open_shim(const char* function, const Shim** shim);

// What open_shim() has found before.
const Shim& shim();

// The tensor of a handle; false for one that no kernel reads: undefined, of another device. `written`: not only read,
// so that a copy that torch has put off (copy-on-write) is made.
bool read(Handle tensor, bool written, kw_tensor* found);

}  // namespace kw::torch
