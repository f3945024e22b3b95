// SPDX-License-Identifier: MIT
#include "torch/call.h"

#include <string.h>

#include "core/error.h"
#include "core/sizes.h"
#include "core/tensor.h"

namespace kw::torch {
namespace {

Handle handle_of(Value value) { return reinterpret_cast<Handle>(value); }

// An optional is the address of its value, or 0.
const Value* present(const Argument& argument, const Value* slot) {
  return argument.optional ? reinterpret_cast<const Value*>(*slot) : slot;
}

// As many threads as torch has now.
kw_status use_threads() {
  static int32_t used = 0;
  uint32_t count = 0;
  if (shim().threads(&count) != 0) return KW_OK;
  const int32_t wanted = static_cast<int32_t>(count);
  if (__atomic_load_n(&used, __ATOMIC_RELAXED) == wanted) return KW_OK;
  __atomic_store_n(&used, wanted, __ATOMIC_RELAXED);
  return kw_set_num_threads(wanted);
}

// Those that torch gives a new tensor like this one: its own where it has no gaps, else the order of its dimensions
// without gaps. False where elements share a place, or there are none.
bool dense_strides(const kw_tensor& other, int64_t* strides) {
  int order[kMostDims];  // dimensions from the innermost on
  int64_t next = 1;
  for (int i = 0; i < other.dims; ++i) {
    int at = i;
    const int dim = static_cast<int>(other.dims) - 1 - i;
    if (other.strides[dim] <= 0 || other.sizes[dim] <= 0 || other.sizes[dim] > kMaxElements) return false;
    for (; at > 0; --at) {
      const int inner = order[at - 1];
      const bool alike = other.strides[inner] == other.strides[dim];
      if (alike ? other.sizes[inner] <= other.sizes[dim] : other.strides[inner] < other.strides[dim]) break;
      order[at] = inner;
    }
    order[at] = dim;
  }
  bool same = true;
  for (int i = 0; i < other.dims; ++i) {
    const int64_t size = other.sizes[order[i]];
    strides[order[i]] = next;
    same = same && (size == 1 || other.strides[order[i]] == next);
    if (__builtin_mul_overflow(next, size, &next) || next > kMaxElements) return false;
  }
  for (int i = 0; same && i < other.dims; ++i) strides[i] = other.strides[i];
  return true;
}

}  // namespace

kw_status Call::begin() {
  const kw_tensor* first = nullptr;
  for (int i = 0; i < schema_.count; ++i) {
    const Argument& argument = schema_.arguments[i];
    given_[i].kind = 0;
    if (argument.kind != Kind::kTensor) continue;
    const Value* const value = present(argument, &stack_[i]);
    if (value == nullptr) continue;
    if (!read(handle_of(*value), argument.written, &given_[i])) return kElsewhere;
    if (first == nullptr) first = &given_[i];
  }
  if (first == nullptr) return kElsewhere;
  device_ = first->device;
  if (device_ == KW_CPU) return use_threads();
  const Shim& s = shim();
  return s.stream != nullptr && s.stream(device_, &stream_) == 0 ? KW_OK : kElsewhere;
}

double Call::real(int place) const {
  const Value bits = value(place);
  double number = 0;
  memcpy(&number, &bits, sizeof number);
  return number;
}

int32_t Call::type(int place) const {
  const int32_t number = static_cast<int32_t>(value(place));
  for (int32_t known = 0; known < kTypes; ++known)
    if (number == shim().types[known]) return known;
  return kOtherType;
}

const char* Call::text(int place) const {
  const char* found = nullptr;
  return shim().string(handle_of(value(place)), &found) == 0 && found != nullptr ? found : "";
}

int Call::one_of(int place, const char* const* names, int count) const {
  const char* const found = text(place);
  for (int i = 0; i < count; ++i)
    if (strcmp(found, names[i]) == 0) return i;
  return -1;
}

bool Call::list(int place, int64_t* sizes, int* count) const {
  const Handle handle = handle_of(value(place));
  size_t found = 0;
  if (shim().list_size(handle, &found) != 0 || found > kMostDims) return false;
  for (size_t i = 0; i < found; ++i) {
    Value item = 0;
    if (shim().list_item(handle, i, &item) != 0) return false;
    sizes[i] = static_cast<int64_t>(item);
  }
  *count = static_cast<int>(found);
  return true;
}

// Without strides: without gaps.
kw_status Call::allocate(int64_t dims, const int64_t* sizes, const int64_t* strides, int32_t dtype, Made* made) {
  const Shim& s = shim();
  if (dims < 0 || dims > kMostDims || dtype < 0) return kElsewhere;
  int64_t next = 1;
  for (int64_t i = dims - 1; i >= 0; --i) {
    if (sizes[i] < 0 || sizes[i] > kMaxElements) return kElsewhere;
    made->sizes[i] = sizes[i];
    made->strides[i] = strides != nullptr ? strides[i] : next;
    if (__builtin_mul_overflow(next, sizes[i] > 0 ? sizes[i] : 1, &next) || next > kMaxElements) return kElsewhere;
  }
  const bool here = device_ == KW_CPU;
  // Where there is no memory, torch says so to Python.
  if (s.empty(dims, made->sizes, made->strides, s.types[dtype], here ? s.cpu : s.cuda, here ? 0 : device_,
              &made->handle) != 0)
    return kElsewhere;
  made->tensor = {KW_TENSOR, nullptr, made->sizes, made->strides, dims, dtype, device_};
  if (s.data(made->handle, &made->tensor.data) == 0) return KW_OK;
  s.delete_tensor(made->handle);
  return kElsewhere;
}

kw_status Call::make_rows(const kw_tensor& x, int64_t cols, int32_t dtype, const kw_tensor** result) {
  int64_t sizes[kMostDims];
  for (int64_t i = 0; i < x.dims; ++i) sizes[i] = x.sizes[i];
  sizes[x.dims - 1] = cols;
  return make(x.dims, sizes, dtype, result);
}

kw_status Call::add(int64_t dims, const int64_t* sizes, const int64_t* strides, int32_t dtype,
                    const kw_tensor** result) {
  if (results_ == kMostResults) return kElsewhere;
  Made& made = made_[results_];
  KW_TRY(allocate(dims, sizes, strides, dtype, &made));
  ++results_;
  *result = &made.tensor;
  return KW_OK;
}

kw_status Call::make(int64_t dims, const int64_t* sizes, int32_t dtype, const kw_tensor** result) {
  return add(dims, sizes, nullptr, dtype, result);
}

kw_status Call::make_in_order(const kw_tensor& other, const kw_tensor** result) {
  int64_t strides[kMostDims];
  if (other.dims > kMostDims || !dense_strides(other, strides)) return kElsewhere;
  return add(other.dims, other.sizes, strides, other.dtype, result);
}

kw_status Call::scratch(int64_t bytes, void** at) {
  *at = nullptr;
  if (bytes == 0) return KW_OK;
  if (has_scratch_) return kElsewhere;
  KW_TRY(allocate(1, &bytes, nullptr, KW_UINT8, &scratch_));
  has_scratch_ = true;
  *at = scratch_.tensor.data;
  return KW_OK;
}

bool Call::written_apart() const {
  struct Range {
    uintptr_t first, end;
  } ranges[kMostArguments];
  for (int i = 0; i < schema_.count; ++i) {
    const kw_tensor* const t = tensor(i);
    ranges[i] = {0, 0};
    if (t == nullptr) continue;
    int64_t count = 0;
    if (count_of("", "", *t, false, &count) != KW_OK) return false;
    const uintptr_t first = reinterpret_cast<uintptr_t>(t->data);
    ranges[i] = {first, first + static_cast<uintptr_t>(count) * size_of(t->dtype)};
  }
  for (int i = 0; i < schema_.count; ++i)
    for (int j = 0; j < schema_.count && schema_.arguments[i].written; ++j)
      if (i != j && ranges[i].first < ranges[j].end && ranges[j].first < ranges[i].end) return false;
  return true;
}

void Call::finish() {
  free_arguments(schema_, stack_);
  for (int i = 0; i < results_; ++i) stack_[i] = reinterpret_cast<Value>(made_[i].handle);
  if (has_scratch_) shim().delete_tensor(scratch_.handle);
}

void Call::discard() {
  for (int i = 0; i < results_; ++i) shim().delete_tensor(made_[i].handle);
  if (has_scratch_) shim().delete_tensor(scratch_.handle);
}

void free_arguments(const Schema& schema, Value* stack) {
  const Shim& s = shim();
  for (int i = 0; i < schema.count; ++i) {
    const Argument& argument = schema.arguments[i];
    const Value* const value = present(argument, &stack[i]);
    if (value == nullptr) continue;
    if (argument.kind == Kind::kTensor) s.delete_tensor(handle_of(*value));
    if (argument.kind == Kind::kString) s.delete_string(handle_of(*value));
    if (argument.kind == Kind::kList) s.delete_list(handle_of(*value));
    if (!argument.optional) continue;
    Value* const held = reinterpret_cast<Value*>(stack[i]);
    if (s.delete_value != nullptr)
      s.delete_value(held);
    else
      s.delete_operator(held);
  }
}

void free_results(int results, Value* stack) {
  for (int i = 0; i < results; ++i) shim().delete_tensor(handle_of(stack[i]));
}

}  // namespace kw::torch
