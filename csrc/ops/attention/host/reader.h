// SPDX-License-Identifier: MIT
// Reads the tensors of a call with caches, and of rope, and refuses those that do not go together.
#pragma once

#include "core/checks.h"
#include "core/tensor.h"
#include "ops/attention/host/attention.h"

namespace kw::attention_checks {

constexpr int64_t kFarthest = int64_t{1} << 56, kAny = -1;  // elements, farther than any memory; a size that may be any

// The call's name, and what all tensors share.
struct Reader {
  const char* name;
  int32_t dtype, device;

  // A tensor of these sizes and this type, its last dimension without gaps where it must be. `found` is what it is.
  kw_status read(const char* argument, const kw_tensor* tensor, int32_t type, int64_t dims, const int64_t* sizes,
                 kw_tensor* found, bool adjacent = true) const {
    KW_TRY(read_tensor(name, argument, tensor, found));
    const kw_tensor& t = *found;
    if (t.dims != dims || t.dtype != type || t.device != device)
      return fail(KW_ERROR_INVALID_ARGUMENT,
                  "%s: %s has %lld dimensions, type %d and is on device %d, but must have %lld, %d and be on %d", name,
                  argument, (long long)t.dims, t.dtype, t.device, (long long)dims, type, device);
    int64_t elements = 1;
    for (int64_t i = 0; i < dims; ++i) {
      KW_TRY(check_size(name, argument, t.sizes[i]));
      if (sizes[i] != kAny && t.sizes[i] != sizes[i])
        return fail(KW_ERROR_INVALID_ARGUMENT, "%s: dimension %lld of %s is %lld, but must be %lld", name, (long long)i,
                    argument, (long long)t.sizes[i], (long long)sizes[i]);
      const bool near = t.strides[i] < kFarthest && t.strides[i] > -kFarthest;
      if (!near || __builtin_mul_overflow(elements, t.sizes[i], &elements) || elements > kMaxElements)
        return fail(KW_ERROR_INVALID_ARGUMENT, "%s: %s reaches farther than there are addresses", name, argument);
    }
    if (adjacent && t.strides[dims - 1] != 1 && t.sizes[dims - 1] > 1 && elements > 0)
      return fail(KW_ERROR_INVALID_ARGUMENT, "%s: elements of a row of %s are %lld apart, but must be adjacent", name,
                  argument, (long long)t.strides[dims - 1]);
    if (elements > 0 && t.data == nullptr)
      return fail(KW_ERROR_INVALID_ARGUMENT, "%s: %s has no memory", name, argument);
    return KW_OK;
  }

  kw_status heads(const char* argument, const kw_tensor* tensor, int64_t first, int64_t heads, int64_t rows, int64_t d,
                  kw_tensor* found, HeadTensor* to) const {
    const int64_t sizes[] = {first, heads, rows, d};
    KW_TRY(read(argument, tensor, dtype, 4, sizes, found));
    *to = {found->data, found->strides[0], found->strides[1], found->strides[2]};
    return KW_OK;
  }

  kw_status numbers(const char* argument, const kw_tensor* tensor, int64_t count, const int32_t** to) const {
    if (tensor == nullptr) return KW_OK;
    kw_tensor found;
    KW_TRY(read(argument, tensor, KW_INT32, 1, &count, &found));
    *to = static_cast<const int32_t*>(found.data);
    return KW_OK;
  }
};

}  // namespace kw::attention_checks
