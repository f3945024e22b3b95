// SPDX-License-Identifier: MIT
#include "core/tensor.h"

#include <string.h>

#include "core/sizes.h"
#include "core/text.h"

namespace kw {
namespace {

constexpr int64_t kMaxDims = 1024;  // as many sizes are believed to be there, not any number

kw_status check_address(const char* function, const char* name, const kw_tensor* tensor) {
  if (reinterpret_cast<uintptr_t>(tensor) % alignof(kw_tensor) != 0)
    return fail(KW_ERROR_INVALID_ARGUMENT, "%s: %s is at %p; a kw_tensor lies at a multiple of %zu", function, name,
                static_cast<const void*>(tensor), alignof(kw_tensor));
  return KW_OK;
}

}  // namespace

kw_status read_tensor(const char* function, const char* name, const kw_tensor* tensor, kw_tensor* found) {
  if (tensor == nullptr) {
    *found = {KW_TENSOR, nullptr, nullptr, nullptr, 0, kOtherType, KW_CPU};
    return KW_OK;
  }
  KW_TRY(check_address(function, name, tensor));
  if (tensor->kind == KW_TENSOR) {
    *found = *tensor;
  } else if (!torch::shared() || !torch::reads(tensor, found)) {  // begins with an address, where its functions are
    return fail(KW_ERROR_INVALID_ARGUMENT, "%s: %s is no kw_tensor (kind is %lld), and no tensor of a shared torch",
                function, name, (long long)tensor->kind);
  }
  if (found->dims < 0 || found->dims > kMaxDims ||
      (found->dims > 0 && (found->sizes == nullptr || found->strides == nullptr)))
    return fail(KW_ERROR_INVALID_ARGUMENT,
                "%s: %s has %lld dimensions (0 to %lld are supported), or no sizes or no strides", function, name,
                (long long)found->dims, (long long)kMaxDims);
  if (found->device < KW_CPU)
    return fail(KW_ERROR_INVALID_ARGUMENT, "%s: %s is on device %d; it must be KW_CPU (-1) or the number of a GPU",
                function, name, found->device);
  return KW_OK;
}

kw_status rows_of(const char* function, const char* name, const kw_tensor& tensor, TensorRows* rows) {
  if (tensor.dims < 1) return fail(KW_ERROR_INVALID_ARGUMENT, "%s: %s is missing, or has no dimension", function, name);
  const int64_t last = tensor.dims - 1, cols = tensor.sizes[last];
  int64_t count = 1, stride = cols, next = 0, elements = 0, span = 0;
  bool first = true, even = cols == 1 || tensor.strides[last] == 1, reached = true;
  bool fits = cols >= 0 && cols <= kMaxElements;
  for (int64_t i = last - 1; i >= 0; --i) {
    const int64_t size = tensor.sizes[i];
    fits = fits && size >= 0 && !__builtin_mul_overflow(count, size, &count);
    if (size == 1) continue;
    even = even && (first || tensor.strides[i] == next);
    if (first) stride = tensor.strides[i];
    first = false;
    reached = !__builtin_mul_overflow(tensor.strides[i], size, &next) && reached;
  }
  fits = fits && !__builtin_mul_overflow(count, cols, &elements) && elements <= kMaxElements;
  reached = reached && !__builtin_mul_overflow(count, stride, &span) && span <= kMaxElements;
  if (!fits || (!reached && elements > 0))  // where there is no element it does not matter how they would lie
    return fail(KW_ERROR_INVALID_ARGUMENT, "%s: %s has negative sizes, or reaches farther than there are addresses",
                function, name);
  if ((!even || stride < 0) && elements > 0)
    return fail(KW_ERROR_INVALID_ARGUMENT, "%s: the rows of %s do not follow each other by one stride", function, name);
  if (tensor.data == nullptr && elements > 0)
    return fail(KW_ERROR_INVALID_ARGUMENT, "%s: %s has no memory", function, name);
  *rows = {count, cols, stride};
  return KW_OK;
}

namespace {

kw_status check_place(const char* function, const char* name, const kw_tensor& tensor, const kw_tensor& other) {
  if (tensor.device != other.device)
    return fail(KW_ERROR_INVALID_ARGUMENT, "%s: %s is on device %d, others on %d", function, name, tensor.device,
                other.device);
  return KW_OK;
}

// Such as "(2, 3, 4) of float32": the sizes of this tensor, the last of which may be another.
Text<96> shape_and_type(const kw_tensor& tensor, const int64_t* last, int32_t dtype) {
  Text<96> text;
  text.add("(");
  for (int64_t i = 0; i < tensor.dims; ++i) {
    const int64_t size = last != nullptr && i == tensor.dims - 1 ? *last : tensor.sizes[i];
    text.add(i > 0 ? ", %lld" : "%lld", static_cast<long long>(size));
  }
  text.add(") of %s", name_of(dtype));
  return text;
}

}  // namespace

kw_status rows_beside(const char* function, const char* name, const kw_tensor& tensor, const kw_tensor& other,
                      int64_t cols, TensorRows* rows) {
  KW_TRY(check_place(function, name, tensor, other));
  const size_t leading = tensor.dims > 0 ? static_cast<size_t>(tensor.dims - 1) * sizeof *tensor.sizes : 0;
  const bool same = tensor.dims == other.dims && tensor.dims > 0 && tensor.sizes[tensor.dims - 1] == cols &&
                    memcmp(tensor.sizes, other.sizes, leading) == 0;
  if (!same || tensor.dtype != other.dtype)
    return fail(KW_ERROR_INVALID_ARGUMENT, "%s: %s is %s, expected %s", function, name,
                shape_and_type(tensor, nullptr, tensor.dtype).data, shape_and_type(other, &cols, other.dtype).data);
  return rows_of(function, name, tensor, rows);
}

kw_status check_columns(const char* function, const char* name, const kw_tensor& tensor, const kw_tensor& other,
                        const TensorRows& rows, bool written) {
  KW_TRY(check_place(function, name, tensor, other));
  if (tensor.dims != 1 || tensor.sizes[0] != rows.cols || (rows.cols > 1 && tensor.strides[0] != 1))
    return fail(KW_ERROR_INVALID_ARGUMENT, "%s: %s is not one row of %lld elements without gaps", function, name,
                (long long)rows.cols);
  if (tensor.data == nullptr && (rows.count > 0 || written))  // sums over no rows are written too
    return fail(KW_ERROR_INVALID_ARGUMENT, "%s: %s has no memory", function, name);
  return KW_OK;
}

kw_status count_of(const char* function, const char* name, const kw_tensor& tensor, bool used, int64_t* count) {
  int64_t next = 1;
  bool empty = false, flat = true, fits = true;
  for (int64_t i = tensor.dims - 1; i >= 0; --i) {
    const int64_t size = tensor.sizes[i];
    empty = empty || size == 0;
    flat = flat && (size == 1 || tensor.strides[i] == next);
    fits = fits && size >= 0 && !__builtin_mul_overflow(next, size, &next) && next <= kMaxElements;
  }
  if (!fits)
    return fail(KW_ERROR_INVALID_ARGUMENT, "%s: %s has negative sizes, or reaches farther than there are addresses",
                function, name);
  if (!flat && !empty)
    return fail(KW_ERROR_INVALID_ARGUMENT, "%s: the elements of %s do not follow each other without gaps", function,
                name);
  if (tensor.data == nullptr && used && !empty)
    return fail(KW_ERROR_INVALID_ARGUMENT, "%s: %s has no memory", function, name);
  *count = next;
  return KW_OK;
}

kw_status check_flat(const char* function, const char* name, const kw_tensor& tensor, const kw_tensor& other,
                     int32_t dtype, int64_t count, bool used) {
  int64_t found = 0;
  KW_TRY(check_place(function, name, tensor, other));
  KW_TRY(count_of(function, name, tensor, used, &found));
  if (found != count || tensor.dtype != dtype)
    return fail(KW_ERROR_INVALID_ARGUMENT, "%s: %s is not %lld elements of the right type", function, name,
                (long long)count);
  return KW_OK;
}

}  // namespace kw

kw_status kw_read_tensor(const kw_tensor* tensor, kw_tensor* found) {
  const char* const name = "kw_read_tensor";
  if (tensor == nullptr || found == nullptr)
    return kw::fail(KW_ERROR_INVALID_ARGUMENT, "%s: %s is NULL", name, tensor == nullptr ? "tensor" : "found");
  KW_TRY(kw::check_address(name, "found", found));
  return kw::read_tensor(name, "tensor", tensor, found);
}
