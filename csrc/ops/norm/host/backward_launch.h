// SPDX-License-Identifier: MIT
// The backward launches of a norm: names of its kernels, the plan turned into their parameters. The first kernel leaves
// float32 sums of each block's rows in the workspace, the second adds them; where one block has all rows, it is alone.
#pragma once

#include "core/error.h"
#include "core/launch.h"
#include "ops/norm/backward_params.h"
#include "ops/norm/host/backward_few.h"
#include "ops/norm/host/backward_finish_plan.h"
#include "ops/norm/host/backward_plan.h"

namespace kw {

// By dtype and norm_backward_plan::Kind; float32 has none that is late, only bfloat16 has some that are phased, wide or
// dense.
struct NormBackwardKernels {
  Kernel row[3][norm_backward_plan::kKinds];
  Kernel few[3], columns[3];
  Kernel finish;
};

// Its initialiser.
#define KW_NORM_BACKWARD_KERNELS_OF(op, type)                                                             \
  {                                                                                                       \
    {op "_backward_shifted_" type}, {op "_backward_" type}, {op "_backward_late_" type},                  \
        {op "_backward_phased_" type}, {op "_backward_wide_" type}, {op "_backward_phased_wide_" type}, { \
      op "_backward_dense_" type                                                                          \
    }                                                                                                     \
  }
#define KW_NORM_BACKWARD_KERNELS(op)                                                                        \
  {{KW_NORM_BACKWARD_KERNELS_OF(op, "float32"), KW_NORM_BACKWARD_KERNELS_OF(op, "float16"),                 \
    KW_NORM_BACKWARD_KERNELS_OF(op, "bfloat16")},                                                           \
   {{op "_backward_few_float32"}, {op "_backward_few_float16"}, {op "_backward_few_bfloat16"}},             \
   {{op "_backward_columns_float32"}, {op "_backward_columns_float16"}, {op "_backward_columns_bfloat16"}}, \
   {op "_backward_finish"}}

static_assert(int{KW_SUMS_FLOAT32} == int{KW_FLOAT32} && int{KW_SUMS_FLOAT16} == int{KW_FLOAT16} &&
              int{KW_SUMS_BFLOAT16} == int{KW_BFLOAT16});

// Second sums begin where the first, for dweight, end.
inline float* sums_of_dbias(const NormBackward& a, const norm_backward_plan::Plan& plan) {
  return static_cast<float*>(a.workspace) + plan.sums() * norm_backward_plan::sums_pitch(plan.kind, a.cols);
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
  set_tensors(a, plan.step(), &p);
  const bool wanted = a.dweight != nullptr || a.dbias != nullptr, last = plan.sums() == 1;
  p.dweight = static_cast<char*>(last ? a.dweight : wanted ? a.workspace : nullptr);
  if (a.centered && wanted) {
    p.dbias = last ? static_cast<char*>(a.dbias) : reinterpret_cast<char*>(sums_of_dbias(a, plan));
  }
  p.step = plan.step();
  const int64_t rows = a.rows + int64_t{plan.pause} * (plan.period - 1);
  p.turns = static_cast<int>(rows / plan.rows_at_once());
  p.rest = rows % plan.rows_at_once();
  p.sums_kind = last ? a.weight_dtype : KW_SUMS_FLOAT32;
  p.group = plan.group;
  p.team_warps = plan.team_warps;
  p.parts = plan.parts;
  p.cluster = plan.cluster;
  p.period = plan.period;
  p.times = plan.times;
  p.pause = plan.pause;
  p.anchor = (plan.sectors ? norm_backward_plan::kSector : norm_backward_plan::kVector) / 2;
  p.lines = norm_backward_plan::lines_of_block(a.cols, plan.parts);
  p.warp_lines = p.lines / p.team_warps;
  return p;
}

inline kw_status launch_norm_backward_finish(const Context& context, NormBackwardKernels& kernels, void* stream,
                                             const NormBackward& a, int64_t partials, int64_t pitch, bool clusters) {
  const norm_backward_plan::Finish plan = norm_backward_plan::finish_for(pitch, partials, a.centered, *context.device);
  KwNormFinishParams p{};
  p.partial = static_cast<const float*>(a.workspace);
  p.dweight = static_cast<char*>(a.dweight);
  p.dbias = static_cast<char*>(a.dbias);
  p.partials = static_cast<int>(partials);
  p.cols = static_cast<int>(a.cols);
  p.sums_kind = a.weight_dtype;
  p.pitch = static_cast<int>(pitch);
  p.count = plan.count;
  p.width = plan.width;
  p.before_clusters = clusters;
  Launch how;
  how.grid = static_cast<uint32_t>(a.centered ? 2 * plan.blocks : plan.blocks);
  how.block = static_cast<uint32_t>(plan.threads);
  how.shared = static_cast<uint32_t>(plan.shared);
  how.overlap = true;
  return launch(context, kernels.finish, how, stream, &p, sizeof p);
}

// Sums over several rows by a kernel that reads them again.
inline kw_status launch_norm_backward_few(const Context& context, NormBackwardKernels& kernels, void* stream,
                                          const NormBackward& a) {
  namespace few = norm_backward_few;
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
  KW_TRY(launch(context, kernels.few[a.dtype], how, stream, &p, sizeof p));
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
  how.grid = static_cast<uint32_t>(norm_backward_plan::ratio_up(units, q.lanes));
  how.block = few::columns_threads(a.rows, q.lanes);
  return launch(context, kernels.columns[a.dtype], how, stream, &q, sizeof q);
}

// `name` is the C function's, for messages.
inline kw_status launch_norm_backward(const char* name, Module& module, NormBackwardKernels& kernels, int32_t device,
                                      void* stream, const NormBackward& a) {
  Context context;
  KW_TRY(module_context(module, device, &context));
  const bool wanted = a.dweight != nullptr || a.dbias != nullptr;
  if (a.rows == 0) return wanted ? launch_norm_backward_finish(context, kernels, stream, a, 0, a.cols, false) : KW_OK;
  if (norm_backward_few::suits(a, *context.device, context.features))
    return launch_norm_backward_few(context, kernels, stream, a);
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
  if (!wanted || plan.sums() == 1) return KW_OK;
  const int64_t pitch = norm_backward_plan::sums_pitch(plan.kind, a.cols);
  return launch_norm_backward_finish(context, kernels, stream, a, plan.sums(), pitch, plan.cluster);
}

inline kw_status norm_backward_workspace(Module& module, int32_t device, int64_t rows, int64_t cols, bool centered,
                                         int64_t* bytes) {
  Context context;
  KW_TRY(module_context(module, device, &context));
  const int64_t sums = norm_backward_plan::workspace_bytes(rows, cols, centered, *context.device, context.features);
  const int64_t statistics = norm_backward_few::statistics_bytes(rows, centered);
  *bytes = sums > statistics ? sums : statistics;
  return KW_OK;
}

}  // namespace kw
