// SPDX-License-Identifier: MIT
// What every function of tensors refuses of every description, whatever the tensor is for.
#pragma once

#include <kernelwright/base.h>
#include <stdint.h>

template <class T>
T* moved(T* p, uintptr_t bytes) {
  return reinterpret_cast<T*>(reinterpret_cast<uintptr_t>(p) + bytes);
}

// `refuse(words, breaks)`: a call is refused with these words once breaks(call, description) has changed argument i.
template <class Refuse>
void check_broken_descriptions(int i, Refuse refuse) {
  refuse("is at", [=](auto& call, kw_tensor& t) { call.given[i] = moved(&t, 4); });
  refuse("is no kw_tensor (kind is 0)", [](auto&, kw_tensor& t) { t.kind = 0; });
  refuse("has -1 dimensions", [](auto&, kw_tensor& t) { t.dims = -1; });
  refuse("has 9223372036854775807 dimensions", [](auto&, kw_tensor& t) { t.dims = INT64_MAX; });
  refuse("has ", [](auto&, kw_tensor& t) { t.sizes = nullptr; });
  refuse("has ", [](auto&, kw_tensor& t) { t.strides = nullptr; });
  refuse("is on device -2", [](auto&, kw_tensor& t) { t.device = -2; });
  refuse("has no memory", [](auto&, kw_tensor& t) { t.data = nullptr; });  // was freed
}
