// SPDX-License-Identifier: MIT
// What is refused of rows that are quantized, with a norm before: the same in every operator that does it.
#pragma once

#include "core/checks.h"

namespace kw::rows_checks {

inline kw_status check_norm(const char* name, const void* weight, int64_t cols, int32_t dtype, int32_t weight_dtype,
                            float clamp, float eps) {
  if (!(clamp >= 0.0f && clamp <= 3e38f))
    return fail(KW_ERROR_INVALID_ARGUMENT, "%s: clamp is %g; it must be 0 or a positive float32", name, (double)clamp);
  if (!(eps <= 3e38f))
    return fail(KW_ERROR_INVALID_ARGUMENT, "%s: eps is %g; it must be a finite float32 (below 0: no norm)", name,
                (double)eps);
  if (cols == 0 && eps >= 0.0f)
    return fail(KW_ERROR_INVALID_ARGUMENT, "%s: cols is 0; rows of no elements have no norm", name);
  if (weight != nullptr && eps < 0.0f)
    return fail(KW_ERROR_INVALID_ARGUMENT, "%s: weight is that of the norm, but eps is %g: no norm", name, (double)eps);
  if (weight != nullptr && weight_dtype != dtype && weight_dtype != KW_FLOAT32)
    return fail(KW_ERROR_INVALID_ARGUMENT, "%s: weight_dtype is %d; it must be dtype (%d) or KW_FLOAT32 (0)", name,
                weight_dtype, dtype);
  return KW_OK;
}

}  // namespace kw::rows_checks
