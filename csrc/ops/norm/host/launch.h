// SPDX-License-Identifier: MIT
// The launches of a norm: names of its kernels, plans turned into their parameters. Of its derivatives the first kernel
// leaves float32 sums of each block's rows in the workspace, the second adds them; where one block has all rows, it is
// alone.
#pragma once

#include "core/error.h"
#include "core/launch.h"
#include "ops/norm/geometry.h"
#include "ops/norm/host/backward_plan.h"
#include "ops/norm/host/plan.h"

// The initialiser of Kernel[3][norm_plan::kShapes], in the order of the dtypes and of norm_plan::Shape.
#define KW_NORM_KERNELS_OF(op, type)                                                                            \
  {                                                                                                             \
    {op "_narrow_" type}, {op "_row_" type}, {op "_long_" type}, {op "_unaligned_" type}, {op "_staged_" type}, \
        {op "_stream_" type}, {                                                                                 \
      op "_warp_row_" type                                                                                      \
    }                                                                                                           \
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
  p.part = plan.part;
  p.held = plan.held;
  p.cluster_log2 = plan.cluster_log2;
  p.keep = plan.keep;
  p.rows_a_block = static_cast<int>(plan.rows_a_block);
  return p;
}

// `name` is the C function's, for messages.
inline kw_status launch_norm(const char* name, Module& module, Kernel (&kernels)[3][norm_plan::kShapes], int32_t device,
                             void* stream, const Norm& a) {
  Context context;
  KW_TRY(module_context(module, device, &context));
  const norm_plan::Plan plan = norm_plan::plan_for(a, *context.device, context.features);
  const int64_t blocks = ratio_up(a.rows, plan.rows_a_block) << plan.cluster_log2;
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

// By dtype and norm_backward_plan::Kind; float32 has none that is late or wide.
struct NormBackwardKernels {
  Kernel row[3][norm_backward_plan::kKinds];
  Kernel few_rows[3], columns[3];
  Kernel reduce;
};

// Its initialiser.
#define KW_NORM_BACKWARD_KERNELS_OF(op, type)                                                \
  {                                                                                          \
    {op "_backward_unaligned_" type}, {op "_backward_" type}, {op "_backward_late_" type}, { \
      op "_backward_wide_" type                                                              \
    }                                                                                        \
  }
#define KW_NORM_BACKWARD_KERNELS(op)                                                                        \
  {{KW_NORM_BACKWARD_KERNELS_OF(op, "float32"), KW_NORM_BACKWARD_KERNELS_OF(op, "float16"),                 \
    KW_NORM_BACKWARD_KERNELS_OF(op, "bfloat16")},                                                           \
   {{op "_few_rows_float32"}, {op "_few_rows_float16"}, {op "_few_rows_bfloat16"}},                         \
   {{op "_few_rows_columns_float32"}, {op "_few_rows_columns_float16"}, {op "_few_rows_columns_bfloat16"}}, \
   {op "_reduce_partials"}}

static_assert(int{KW_SUMS_FLOAT32} == int{KW_FLOAT32} && int{KW_SUMS_FLOAT16} == int{KW_FLOAT16} &&
              int{KW_SUMS_BFLOAT16} == int{KW_BFLOAT16});

// Of a tensor: where it begins, and how far after that 16 bytes of it may be read at once. Nowhere if it has fewer: no
// vector begins at an odd address.
inline void set_reach(const NormBackward& a, const char* data, int64_t pitch, int which, KwNormBackwardParams* p) {
  const int64_t rows = (a.rows - 1) * pitch, bytes = (rows < 0 ? -rows : rows) + a.cols * size_of(a.dtype);
  p->first[which] = rows < 0 ? data + rows : data;
  p->reach[which] = bytes < norm_backward_plan::kVector ? 0 : bytes - norm_backward_plan::kVector;
  if (bytes < norm_backward_plan::kVector) p->first[which] = reinterpret_cast<const char*>(1);
}

inline void set_tensors(const NormBackward& a, int64_t step, KwNormBackwardParams* p) {
  const int64_t size = size_of(a.dtype);
  p->dy = static_cast<const char*>(a.dy);
  p->h = static_cast<const char*>(a.h);
  p->dsum = static_cast<const char*>(a.dsum);
  p->weight = static_cast<const char*>(a.weight);
  p->dx = static_cast<char*>(a.dx);
  p->mean = a.mean;
  p->rstd = a.rstd;
  // One row's pitch may be anything, also where addresses a pitch further would have to be on 16 bytes.
  const int64_t pitch_unit = a.rows > 1 ? size : 0;
  p->dy_pitch = a.dy_stride * pitch_unit;
  p->h_pitch = a.h_stride * pitch_unit;
  p->dsum_pitch = a.dsum_stride * pitch_unit;
  p->dx_pitch = a.dx_stride * pitch_unit;
  p->dy_step = p->dy_pitch * step;
  p->h_step = p->h_pitch * step;
  p->dsum_step = p->dsum_pitch * step;
  p->dx_step = p->dx_pitch * step;
  p->rows = a.rows;
  p->cols = static_cast<int>(a.cols);
  p->weight_kind = a.weight == nullptr         ? KW_WEIGHT_NONE
                   : a.weight_dtype == a.dtype ? KW_WEIGHT_LIKE_X
                                               : KW_WEIGHT_FLOAT32;
  p->inverse_cols = 1.0f / static_cast<float>(a.cols);
  p->eps = a.eps;
}

inline KwNormBackwardParams norm_backward_params(const NormBackward& a, const norm_backward_plan::Plan& plan) {
  KwNormBackwardParams p{};
  set_tensors(a, plan.rows_a_turn, &p);
  set_reach(a, p.dy, p.dy_pitch, 0, &p);
  set_reach(a, p.h, p.h_pitch, 1, &p);
  if (a.dsum != nullptr) set_reach(a, p.dsum, p.dsum_pitch, 2, &p);
  const bool wanted = a.dweight != nullptr || a.dbias != nullptr, last = plan.partials == 1;
  p.dweight = static_cast<char*>(last ? a.dweight : wanted ? a.workspace : nullptr);
  if (a.centered && wanted) {
    float* const second = static_cast<float*>(a.workspace) + plan.partials * a.cols;  // where those for dweight end
    p.dbias = last ? static_cast<char*>(a.dbias) : reinterpret_cast<char*>(second);
  }
  p.step = plan.rows_a_turn;
  p.turns = static_cast<int>(a.rows / plan.rows_a_turn);
  p.rest = a.rows % plan.rows_a_turn;
  p.sums_kind = last ? a.weight_dtype : KW_SUMS_FLOAT32;
  p.group = plan.group;
  p.team_warps = plan.team_warps;
  p.parts = plan.parts;
  p.cluster = plan.cluster;
  return p;
}

inline kw_status launch_norm_reduction(const Context& context, NormBackwardKernels& kernels, void* stream,
                                       const NormBackward& a, int64_t partials, bool clusters) {
  const norm_backward_plan::Reduction plan =
      norm_backward_plan::reduction_for(a.cols, partials, a.centered, *context.device);
  KwNormReduceParams p{};
  p.partial = static_cast<const float*>(a.workspace);
  p.dweight = static_cast<char*>(a.dweight);
  p.dbias = static_cast<char*>(a.dbias);
  p.partials = static_cast<int>(partials);
  p.cols = static_cast<int>(a.cols);
  p.sums_kind = a.weight_dtype;
  p.count = plan.count;
  p.width = plan.width;
  p.before_clusters = clusters;
  Launch how;
  how.grid = static_cast<uint32_t>(a.centered ? 2 * plan.blocks : plan.blocks);
  how.block = static_cast<uint32_t>(plan.threads);
  how.shared = static_cast<uint32_t>(plan.shared);
  how.overlap = true;
  return launch(context, kernels.reduce, how, stream, &p, sizeof p);
}

// Sums over several rows by a kernel that reads them again.
inline kw_status launch_norm_few_rows(const Context& context, NormBackwardKernels& kernels, void* stream,
                                      const NormBackward& a) {
  namespace few = norm_few_rows;
  const bool wanted = a.dweight != nullptr || a.dbias != nullptr, one = a.rows == 1;
  KwNormBackwardParams p{};
  set_tensors(a, 0, &p);
  p.sums_kind = a.weight_dtype;
  if (one) p.dweight = static_cast<char*>(a.dweight), p.dbias = static_cast<char*>(a.dbias);
  if (wanted && !one) p.statistics = static_cast<float*>(a.workspace);
  Launch how;
  how.grid = static_cast<uint32_t>(a.rows);
  how.block = few::row_threads(a, *context.device);
  how.overlap = true;
  KW_TRY(launch(context, kernels.few_rows[a.dtype], how, stream, &p, sizeof p));
  if (p.statistics == nullptr) return KW_OK;
  const int64_t units = a.cols * size_of(a.dtype) / norm_backward_plan::kVector;
  KwNormColumnsParams q{};
  q.dy = p.dy, q.dy_pitch = p.dy_pitch;
  q.h = p.h, q.h_pitch = p.h_pitch;
  q.statistics = p.statistics;
  q.dweight = static_cast<char*>(a.dweight), q.dbias = static_cast<char*>(a.dbias);
  q.rows = static_cast<uint32_t>(a.rows);
  q.cols = p.cols;
  q.sums_kind = a.weight_dtype;
  q.lanes = few::columns_lanes(units, *context.device);
  how.grid = static_cast<uint32_t>(ratio_up(units, q.lanes));
  how.block = few::columns_threads(a.rows, q.lanes);
  return launch(context, kernels.columns[a.dtype], how, stream, &q, sizeof q);
}

// `name` is the C function's, for messages.
inline kw_status launch_norm_backward(const char* name, Module& module, NormBackwardKernels& kernels, int32_t device,
                                      void* stream, const NormBackward& a) {
  Context context;
  KW_TRY(module_context(module, device, &context));
  const bool wanted = a.dweight != nullptr || a.dbias != nullptr;
  if (a.rows == 0) return wanted ? launch_norm_reduction(context, kernels, stream, a, 0, false) : KW_OK;
  if (norm_few_rows::suits(a, *context.device, context.features))
    return launch_norm_few_rows(context, kernels, stream, a);
  const norm_backward_plan::Plan plan = norm_backward_plan::plan_for(a, *context.device, context.features);
  if (a.rows / plan.rows_a_turn > 0x7ffffff0)
    return fail(KW_ERROR_UNSUPPORTED, "%s: %lld rows of %lld columns are more than one call does. Split the rows", name,
                (long long)a.rows, (long long)a.cols);
  Launch how;
  how.grid = static_cast<uint32_t>(plan.partials * plan.parts);
  how.block = static_cast<uint32_t>(plan.teams * plan.team_warps * norm_backward_plan::kWarp);
  how.shared = static_cast<uint32_t>(plan.shared);
  how.cluster = plan.cluster ? static_cast<uint32_t>(plan.parts) : 1;
  how.overlap = true;
  const KwNormBackwardParams params = norm_backward_params(a, plan);
  KW_TRY(launch(context, kernels.row[a.dtype][plan.kind], how, stream, &params, sizeof params));
  if (!wanted || plan.partials == 1) return KW_OK;
  return launch_norm_reduction(context, kernels, stream, a, plan.partials, plan.cluster);
}

inline kw_status norm_backward_workspace(Module& module, int32_t device, int64_t rows, int64_t cols, bool centered,
                                         int64_t* bytes) {
  Context context;
  KW_TRY(module_context(module, device, &context));
  const int64_t sums = norm_backward_plan::workspace_bytes(rows, cols, centered, *context.device, context.features);
  const int64_t statistics = norm_few_rows::statistics_bytes(rows, centered);
  *bytes = sums > statistics ? sums : statistics;
  return KW_OK;
}

}  // namespace kw
