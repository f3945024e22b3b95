// SPDX-License-Identifier: MIT
// The rest of the STAND-IN for libtorch_cpu.so: what kernels need that are called by torch's dispatcher. It registers
// one kernel, which a test then asks for, and counts what was made and freed: tensors, strings, lists and optionals.
#include "torch_calls.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "torch.h"

#define EXPORT __attribute__((visibility("default")))

struct list {
  size_t count;
  uint64_t items[16];
};

static StandinBoxed kernel;
static int alive;

EXPORT StandinBoxed standin_kernel(void) { return kernel; }
EXPORT int standin_alive(void) { return alive; }

EXPORT uint64_t standin_string(const char* text) {
  ++alive;
  return (uint64_t)(uintptr_t)strdup(text);
}

EXPORT uint64_t standin_list(size_t count, const int64_t* items) {
  struct list* list = calloc(1, sizeof *list);
  ++alive;
  list->count = count;
  memcpy(list->items, items, count * sizeof *items);
  return (uint64_t)(uintptr_t)list;
}

EXPORT uint64_t standin_optional(uint64_t value) {
  uint64_t* held = malloc(sizeof *held);
  ++alive;
  *held = value;
  return (uint64_t)(uintptr_t)held;
}

// A tensor as a stack holds it: what is given, or memory of its own for a result.
struct held {
  struct StandinTensor* tensor;  // first: what a handle points to
  struct StandinTensor own;
  int64_t sizes[12], strides[12];
  void* memory;
};

EXPORT uint64_t standin_tensor(const struct StandinTensor* given) {
  struct held* made = calloc(1, sizeof *made);
  ++alive;
  made->own = *given;
  made->tensor = &made->own;
  return (uint64_t)(uintptr_t)made;
}

EXPORT int32_t aoti_torch_is_defined(void* handle, bool* defined) {
  *defined = handle != NULL;
  return 0;
}

EXPORT int32_t aoti_torch_empty_strided(int64_t dims, const int64_t* sizes, const int64_t* strides, int32_t dtype,
                                        int32_t device, int32_t index, void** made) {
  struct held* tensor = calloc(1, sizeof *tensor);
  int64_t count = 1;
  for (int64_t i = 0; i < dims; ++i) {
    tensor->sizes[i] = sizes[i];
    tensor->strides[i] = strides[i];
    count *= sizes[i];
  }
  tensor->memory = calloc((size_t)count + 1, 8);
  tensor->own = (struct StandinTensor){NULL, 0,     tensor->memory, tensor->sizes, tensor->strides,
                                       dims, dtype, device,         index,         count * 8 + 8};
  tensor->tensor = &tensor->own;
  ++alive;
  *made = tensor;
  return 0;
}

EXPORT int32_t aoti_torch_delete_tensor_object(void* handle) {
  free(((struct held*)handle)->memory);
  free(handle);
  --alive;
  return 0;
}

EXPORT int32_t torch_delete_string(void* handle) {
  free(handle);
  --alive;
  return 0;
}
EXPORT int32_t torch_delete_list(void* handle) { return torch_delete_string(handle); }
EXPORT int32_t torch_delete_stable_ivalue(uint64_t* held) { return torch_delete_string(held); }

EXPORT int32_t torch_string_c_str(void* handle, const char** text) {
  *text = handle;
  return 0;
}

EXPORT int32_t torch_list_size(void* handle, size_t* count) {
  *count = ((const struct list*)handle)->count;
  return 0;
}

EXPORT int32_t torch_list_get_item(void* handle, size_t place, uint64_t* item) {
  *item = ((const struct list*)handle)->items[place];
  return 0;
}

EXPORT int32_t torch_get_num_threads(uint32_t* count) {
  *count = 1;
  return 0;
}

EXPORT int32_t aoti_torch_library_init_impl(const char* name, const char* key, const char* file, uint32_t line,
                                            void** library) {
  (void)name, (void)key, (void)file, (void)line;
  *library = &kernel;
  return 0;
}

EXPORT int32_t torch_library_impl(void* library, const char* name, StandinBoxed function, uint64_t version) {
  (void)library, (void)name, (void)version;
  kernel = function;
  return 0;
}

// What a call that no kernel serves comes to: Python, which is not here.
EXPORT int32_t torch_call_dispatcher(const char* name, const char* overload, uint64_t* stack, uint64_t version) {
  (void)name, (void)overload, (void)stack, (void)version;
  return 1;
}

EXPORT int32_t aoti_torch_library_init_fragment(void) { return 1; }
EXPORT int32_t aoti_torch_library_def(void) { return 1; }
EXPORT void aoti_torch_check(void) { abort(); }
