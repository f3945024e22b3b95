// SPDX-License-Identifier: MIT
// Layer normalisation of rows, and its derivatives.
#include "ops/norm/device/kernels.cuh"

KW_NORM_FORWARD(layer_norm, true, kw::kLayerRowThreads)

KW_NORM_BACKWARD(layer_norm, true, kw::kLayerBackwardThreads)
// Where this was measured.
#ifdef KW_HAS_WGMMA
KW_BACKWARD(layer_norm_backward_wide_float16, kw::kBackwardThreads, kw::Float16, true, true, 1, kw::kWideColumns)
KW_BACKWARD(layer_norm_backward_wide_bfloat16, kw::kBackwardThreads, kw::BFloat16, true, true, 1, kw::kWideColumns)
#endif
