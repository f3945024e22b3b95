// SPDX-License-Identifier: MIT
// RMS normalisation of rows, and its derivatives.
#include "ops/norm/device/kernels.cuh"

KW_NORM_FORWARD(rms_norm, false, kw::kRmsRowThreads)

// Where this was measured: with 32 registers twice as many warps are at work as hold rows.
#ifdef KW_HAS_WGMMA
KW_FORWARD(rms_norm_stream_float32, kw::kStreamThreads, 2, kw::norm_stream<false, kw::Float32>)
KW_FORWARD(rms_norm_stream_float16, kw::kStreamThreads, 2, kw::norm_stream<false, kw::Float16>)
KW_FORWARD(rms_norm_stream_bfloat16, kw::kStreamThreads, 2, kw::norm_stream<false, kw::BFloat16>)
#endif

KW_NORM_BACKWARD(rms_norm, false, kw::kRmsBackwardThreads)
#ifdef KW_HAS_WGMMA
KW_BACKWARD(rms_norm_backward_late_float16, kw::kRmsBackwardThreads, kw::Float16, false, true, 2)
KW_BACKWARD(rms_norm_backward_late_bfloat16, kw::kRmsBackwardThreads, kw::BFloat16, false, true, 2)
#endif
