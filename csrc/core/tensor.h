// SPDX-License-Identifier: MIT
// Tensors as functions are given them: by a kw_tensor, or one of torch's. What is asked of them here is what all
// operators on rows ask. Messages name the C function and the argument.
#pragma once

#include <kernelwright/base.h>

#include "core/error.h"

namespace kw {

constexpr int32_t kOtherType = -1;  // of a tensor of torch with elements that no function takes

// `tensor` for the functions below; nullptr, a tensor that was left out, has no data and no dimensions.
kw_status read_tensor(const char* function, const char* name, const kw_tensor* tensor, kw_tensor* found);

// The last dimension, all others, and how far it is from one row to the next.
struct TensorRows {
  int64_t count, cols, stride;
};

// What lies otherwise than in rows with one stride between them is refused.
kw_status rows_of(const char* function, const char* name, const kw_tensor& tensor, TensorRows* rows);

// The same of a tensor that must be like another in type and place, and have its shape but for `cols` elements a row.
kw_status rows_beside(const char* function, const char* name, const kw_tensor& tensor, const kw_tensor& other,
                      int64_t cols, TensorRows* rows);

// One element for each column of these rows of `other`, without a gap, and on its device. `written`: not only read.
kw_status check_columns(const char* function, const char* name, const kw_tensor& tensor, const kw_tensor& other,
                        const TensorRows& rows, bool written);

// The elements of a tensor without a gap; another is refused. `used`: there must be memory.
kw_status count_of(const char* function, const char* name, const kw_tensor& tensor, bool used, int64_t* count);

// `count` elements of this type without a gap, in any shape, where `other` is.
kw_status check_flat(const char* function, const char* name, const kw_tensor& tensor, const kw_tensor& other,
                     int32_t dtype, int64_t count, bool used);

namespace torch {
// Whether kw_share_torch() found out how; `tensor` is the address of a c10::TensorImpl.
bool reads(const void* tensor, kw_tensor* found);
bool shared();
}  // namespace torch

}  // namespace kw
