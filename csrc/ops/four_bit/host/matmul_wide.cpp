// SPDX-License-Identifier: MIT
// Launches csrc/ops/four_bit/device/matmul_wide.cuh.
#include "ops/four_bit/host/matmul_wide.h"
#include <string.h>

#include "core/tensor_map.h"
#include "ops/four_bit/host/matmul_wide_plan.h"

namespace kw {
namespace {

using namespace matmul_4bit_plan;

#define KW_WIDE(cols) {{"matmul_4bit_wide" cols "_float16"}, {"matmul_4bit_wide" cols "_bfloat16"}}

Kernel kernels[kWideKinds][2] = {KW_WIDE("96"), KW_WIDE("128"), KW_WIDE("160"), KW_WIDE("192"), KW_WIDE("256")};
Kernel begin_kernel{"matmul_4bit_wide_begin"};

kw_status run_begin(const Context& context, void* stream, const Matmul4bit& a, const Wide& plan) {
  KwMatmul4bitWideBeginParams p{};
  p.ready = static_cast<unsigned*>(a.workspace);
  p.count = static_cast<unsigned>(wide_flags(plan));
  Launch how{static_cast<uint32_t>(ratio_up(p.count, kWideBeginThreads)), kWideBeginThreads};
  how.overlap = true;
  return launch(context, begin_kernel, how, stream, &p, sizeof p);
}

KwMatmul4bitWideParams params_of(const Matmul4bit& a, const Wide& plan) {
  KwMatmul4bitWideParams p{};
  p.y = static_cast<char*>(a.y);
  p.bias = static_cast<const char*>(a.bias);
  p.scales = scales_of(a.scales, a.blocksize);
  p.y_pitch = a.y_stride * 2;
  p.m = static_cast<unsigned>(a.m);
  p.n = static_cast<unsigned>(a.n);
  p.chunks = static_cast<unsigned>(a.k / kChunk);
  p.steps = static_cast<unsigned>(plan.steps);
  p.rows = static_cast<unsigned>(plan.rows);
  p.columns = static_cast<unsigned>(plan.columns);
  p.group = static_cast<unsigned>(kWideGroup);
  p.whole = static_cast<unsigned>(plan.whole);
  p.split = static_cast<unsigned>(plan.split);
  p.ready = static_cast<unsigned*>(a.workspace);
  if (plan.split > 0) p.sums = static_cast<char*>(a.workspace) + wide_flags(plan) * 4;
  p.vectors = aligned_to(a.y, kVectorBytes) && (a.m == 1 || p.y_pitch % kVectorBytes == 0);
  memcpy(p.values, kCodeValues4bit[a.quant_type], sizeof p.values);
  return p;
}

}  // namespace

kw_status run_wide(const Context& context, void* stream, const Matmul4bit& a) {
  const Wide plan = plan_wide(a, *context.device);
  const int64_t cols = kWideCols[plan.kind];
  KwMatmul4bitWideParams p = params_of(a, plan);
  KW_TRY(encode(context,
                matrix_map(a.x, a.dtype, a.m, a.k, a.x_stride * 2, cols / kWideCluster, kWideDepth, Swizzle::k128),
                &p.x));
  KW_TRY(encode(context, matrix_map(a.packed, KW_UINT8, a.n, a.k / 2, a.k / 2, kWideRows, kWideDepth / 2, Swizzle::k32),
                &p.codes));
  if (plan.split > 0) KW_TRY(run_begin(context, stream, a, plan));
  Launch how{static_cast<uint32_t>(plan.pairs * kWideCluster), kWideThreads};
  how.shared = wide_block_bytes(static_cast<unsigned>(cols));
  how.cluster = kWideCluster;
  how.overlap = true;
  return launch(context, kernels[plan.kind][a.dtype - KW_FLOAT16], how, stream, &p, sizeof p);
}

}  // namespace kw
