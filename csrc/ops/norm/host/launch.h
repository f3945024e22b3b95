// SPDX-License-Identifier: MIT
// The forward launch of a norm: names of its kernels, the plan turned into their parameters.
#pragma once

#include "core/error.h"
#include "core/launch.h"
#include "ops/norm/host/plan.h"
#include "ops/norm/params.h"

// The initialiser of Kernel[3][norm_plan::kShapes], in the order of the dtypes and of norm_plan::Shape.
#define KW_NORM_KERNELS_OF(op, type)                                                                                  \
  {                                                                                                                   \
    {op "_row_" type}, {op "_row_add_" type}, {op "_shifted_" type}, {op "_shifted_add_" type}, {op "_narrow_" type}, \
        {op "_narrow_add_" type}, {op "_flat_" type}, {op "_flat_add_" type}, {op "_staged_" type},                   \
        {op "_staged_add_" type}, {op "_stream_" type}, {op "_stream_add_" type}, {op "_scalar_" type},               \
        {op "_slide_" type}, {op "_long_" type}, {op "_long_shifted_" type}, {op "_thin_" type}, {op "_pair_" type},  \
        {op "_walk_" type}, {op "_walk_add_" type}, {                                                                 \
      op "_walk_five_" type                                                                                           \
    }                                                                                                                 \
  }
#define KW_NORM_KERNELS(op) \
  {KW_NORM_KERNELS_OF(op, "float32"), KW_NORM_KERNELS_OF(op, "float16"), KW_NORM_KERNELS_OF(op, "bfloat16")}

namespace kw {

constexpr int64_t kMaxGrid = 0x7fffffff;

inline int weight_kind(const Norm& a, const void* data) {
  if (data == nullptr) return KW_WEIGHT_NONE;
  return a.weight_dtype == a.dtype ? KW_WEIGHT_LIKE_X : KW_WEIGHT_FLOAT32;
}

inline KwNormParams norm_params(const Norm& a, const norm_plan::Plan& plan) {
  const int64_t size = size_of(a.dtype);
  KwNormParams p{};
  p.x = static_cast<const char*>(a.x);
  p.residual = static_cast<const char*>(a.residual);
  p.weight = static_cast<const char*>(a.weight);
  p.bias = static_cast<const char*>(a.bias);
  p.y = static_cast<char*>(a.y);
  p.sum = static_cast<char*>(a.sum);
  p.mean = a.mean;
  p.rstd = a.rstd;
  p.x_pitch = a.x_stride * size;
  p.residual_pitch = a.residual_stride * size;
  p.y_pitch = a.y_stride * size;
  p.sum_pitch = a.sum_stride * size;
  p.rows = a.rows;
  p.cols = static_cast<int>(a.cols);
  p.weight_kind = weight_kind(a, a.weight);
  p.bias_kind = weight_kind(a, a.bias);
  p.inverse_cols = 1.0f / static_cast<float>(a.cols);
  p.eps = a.eps;
  p.group = plan.group;
  p.row_is_a_warp = plan.row_is_a_warp;
  p.slots = plan.slots;
  p.cluster_log2 = plan.cluster_log2;
  p.keep = plan.keep;
  p.alike = plan.alike;
  p.rows_a_block = static_cast<int>(plan.rows_a_block);
  p.cols_magic = static_cast<unsigned>(norm_plan::ratio_up(int64_t{1} << 32, a.cols));  // not used with one column
  return p;
}

// `name` is the C function's, for messages.
inline kw_status launch_norm(const char* name, Module& module, Kernel (&kernels)[3][norm_plan::kShapes], int32_t device,
                             void* stream, const Norm& a) {
  Context context;
  KW_TRY(module_context(module, device, &context));
  const norm_plan::Plan plan = norm_plan::plan_for(a, *context.device, context.features);
  const int64_t clusters = plan.clusters > 0 ? plan.clusters : norm_plan::ratio_up(a.rows, plan.rows_a_block);
  const int64_t blocks = clusters << plan.cluster_log2;
  if (blocks > kMaxGrid)
    return fail(KW_ERROR_UNSUPPORTED,
                "%s: %lld rows of %lld columns need %lld blocks; a launch holds %lld. Split the rows", name,
                (long long)a.rows, (long long)a.cols, (long long)blocks, (long long)kMaxGrid);
  Launch how;
  how.grid = static_cast<uint32_t>(blocks);
  how.block = static_cast<uint32_t>(plan.threads);
  how.cluster = 1u << plan.cluster_log2;
  how.shared = static_cast<uint32_t>(plan.shared);
  how.overlap = true;
  const KwNormParams params = norm_params(a, plan);
  return launch(context, kernels[a.dtype][plan.shape], how, stream, &params, sizeof params);
}

}  // namespace kw
