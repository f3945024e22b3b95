// SPDX-License-Identifier: MIT
// kw_matmul_4bit: checks its arguments, then runs on the CPU or plans launches of csrc/ops/four_bit/matmul_4bit.cu.
#include "ops/four_bit/api/matmul_4bit.h"
#include <string.h>

#include "core/tensor_map.h"
#include "ops/four_bit/host/checks.h"
#include "ops/four_bit/host/matmul_gemv_plan.h"
#include "ops/four_bit/host/matmul_narrow_plan.h"
#include "ops/four_bit/host/matmul_params.h"
#include "ops/four_bit/host/matmul_plan.h"
#include "ops/four_bit/host/matmul_wide.h"
#include "ops/four_bit/host/matmul_wide_plan.h"
#include "ops/four_bit/host/tensors.h"

namespace kw {
namespace {

using namespace four_bit_checks;

using namespace matmul_4bit_plan;

#define KW_GEMV(cols) {{"matmul_4bit_gemv" cols "_float16"}, {"matmul_4bit_gemv" cols "_bfloat16"}}
#define KW_NARROW(cols) {{"matmul_4bit_narrow" cols "_float16"}, {"matmul_4bit_narrow" cols "_bfloat16"}}

Module module{"matmul_4bit"};
Kernel gemv_kernels[][2] = {KW_GEMV("1"), KW_GEMV("2"), KW_GEMV("4"), KW_GEMV("8"), KW_GEMV("16")};
Kernel tile_kernels[kKinds][2] = {{{"matmul_4bit_tile32_float16"}, {"matmul_4bit_tile32_bfloat16"}},
                                  {{"matmul_4bit_tile64_float16"}, {"matmul_4bit_tile64_bfloat16"}}};
Kernel narrow_kernels[kNarrowKinds][2] = {KW_NARROW("8"), KW_NARROW("16"), KW_NARROW("32"), KW_NARROW("64")};
Kernel narrow_sum_kernels[2] = {{"matmul_4bit_narrow_sum_float16"}, {"matmul_4bit_narrow_sum_bfloat16"}};
Kernel narrow_x_kernel{"matmul_4bit_narrow_x"};
Kernel any_kernels[3] = {{"matmul_4bit_any_float32"}, {"matmul_4bit_any_float16"}, {"matmul_4bit_any_bfloat16"}};
Kernel words_kernels[2] = {{"matmul_4bit_words1_float32"}, {"matmul_4bit_words4_float32"}};

// The same from a later row of x on.
Matmul4bit later(Matmul4bit a, int64_t row) {
  const int64_t size = size_of(a.dtype);
  a.x = static_cast<const char*>(a.x) + row * a.x_stride * size;
  a.y = static_cast<char*>(a.y) + row * a.y_stride * size;
  a.m -= row;
  return a;
}

kw_status run_gemv(const Context& context, void* stream, const Matmul4bit& a) {
  const Rows plan = plan_gemv(a, *context.device);
  KwMatmul4bitParams p = chunked_params(a);
  p.steps = static_cast<unsigned>(plan.steps);
  p.k_warps_log2 = static_cast<unsigned>(plan.k_warps_log2);
  p.row_blocks = static_cast<unsigned>(a.k / kGemvBlock);
  p.block_units = static_cast<unsigned>(plan.units / plan.grid);
  p.last_block = static_cast<unsigned>(a.n * (a.k / kGemvBlock) - 2);
  p.group_units = static_cast<unsigned>(plan.group);
  p.more_units = static_cast<unsigned>(plan.units % plan.grid);
  p.part_shift = p.scales.part_shift + p.scales.block_log2 - log2_of(kGemvBlock);
  Launch how{static_cast<uint32_t>(plan.grid), kGemvThreads};
  how.shared = static_cast<uint32_t>(plan.shared);
  how.overlap = true;
  return launch(context, gemv_kernels[plan.kind][a.dtype - KW_FLOAT16], how, stream, &p, sizeof p);
}

// One launch, of at most the rows that a kernel can take.
kw_status run_tile(const Context& context, void* stream, const Matmul4bit& a) {
  const Tile plan = plan_for(a, *context.device);
  if (plan.row_warps == 0) {
    Matmul4bit first = a;
    first.m = a.m / 2;
    KW_TRY(run_tile(context, stream, first));
    return run_tile(context, stream, later(a, first.m));
  }
  KwMatmul4bitParams p = chunked_params(a);
  p.tiles = static_cast<unsigned>(plan.tiles);
  p.steps = static_cast<unsigned>(ratio_up(a.k, depth(plan)));
  p.row_warps = static_cast<unsigned>(plan.row_warps);
  p.k_warps_log2 = static_cast<unsigned>(plan.k_warps_log2);
  p.stages = static_cast<unsigned>(plan.stages);
  Launch how{static_cast<uint32_t>(plan.grid), static_cast<uint32_t>(plan.row_warps << plan.k_warps_log2) * 32};
  how.shared = static_cast<uint32_t>(plan.shared);
  how.overlap = true;
  return launch(context, tile_kernels[plan.kind][a.dtype - KW_FLOAT16], how, stream, &p, sizeof p);
}

kw_status run_narrow_x(const Context& context, void* stream, const Matmul4bit& a, const Narrow& plan) {
  KwMatmul4bitNarrowXParams p{};
  p.to = static_cast<char*>(a.workspace);
  p.x = static_cast<const char*>(a.x);
  p.x_pitch = a.x_stride * size_of(a.dtype);
  p.m = static_cast<unsigned>(a.m);
  p.rows = static_cast<unsigned>(plan.groups * kNarrowCols[plan.kind]);
  p.group_log2 = static_cast<unsigned>(log2_of(kNarrowCols[plan.kind]));
  p.slices = static_cast<unsigned>(a.k / kNarrowSlice);
  p.aligned = words_of_x(a);
  p.early = kNarrowCols[plan.kind] <= KW_NARROW_EARLY_COLS;
  const int64_t units = int64_t{p.rows} * p.slices * kNarrowXUnits;
  Launch how{static_cast<uint32_t>(ratio_up(units, kNarrowXThreads)), kNarrowXThreads};
  how.overlap = true;
  return launch(context, narrow_x_kernel, how, stream, &p, sizeof p);
}

kw_status run_narrow_sum(const Context& context, void* stream, const Matmul4bit& a, const KwMatmul4bitParams& common,
                         const KwMatmul4bitNarrowParams& of) {
  KwMatmul4bitNarrowSumParams p{};
  p.y = common.y;
  p.sums = of.sums;
  p.bias = common.bias;
  p.y_pitch = common.y_pitch;
  p.m = of.m;
  p.n = of.n;
  p.pieces = of.pieces;
  p.by = common.by;
  p.row_blocks = static_cast<unsigned>(ratio_up(a.n, kNarrowSumThreads));
  Launch how{p.row_blocks * p.m, kNarrowSumThreads};
  how.overlap = true;
  return launch(context, narrow_sum_kernels[a.dtype - KW_FLOAT16], how, stream, &p, sizeof p);
}

// Boxes of a warp's step. Scales have some where each is for 64 elements and rows of them are whole vectors.
kw_status describe_narrow(const Context& context, const Matmul4bit& a, KwMatmul4bitNarrowParams* p) {
  const int64_t bytes = a.k / 2;
  KW_TRY(encode(context,
                matrix_map(a.packed, KW_UINT8, a.n, bytes, bytes, kNarrowWarpRows, kNarrowStep / 2, Swizzle::k128),
                &p->codes));
  const int64_t slices = a.k / kNarrowSlice;
  const char* const absmax = p->scales.absmax;
  p->code_mask = 255;
  p->scales_log2 = static_cast<unsigned>(log2_of(kScalesABlock));
  if (absmax == nullptr) return KW_OK;
  if (a.blocksize == int64_t{kNarrowSlice} && aligned_to(absmax, kVectorBytes) && slices * 4 % kVectorBytes == 0) {
    p->boxed_scales = 1;
    return encode(context,
                  matrix_map(absmax, KW_FLOAT32, a.n, slices, slices * 4, kNarrowWarpRows / 2,
                             kNarrowStep / kNarrowSlice, Swizzle::kNone),
                  &p->float_scales);
  }
  p->scales.codes = p->scales.absmax2 = p->scales.map = p->scales.offset = absmax;
  p->code_mask = p->scales_log2 = 0;
  return KW_OK;
}

kw_status run_narrow(const Context& context, void* stream, const Matmul4bit& a) {
  const Narrow plan = plan_narrow(a, *context.device);
  const KwMatmul4bitParams common = params_of(a, kFactors[a.dtype][a.quant_type]);
  KW_TRY(run_narrow_x(context, stream, a, plan));
  KwMatmul4bitNarrowParams p{};
  p.y = common.y;
  p.x = static_cast<const char*>(a.workspace);
  p.packed = common.packed;
  p.bias = plan.pieces > 1 ? nullptr : common.bias;
  p.scales = common.scales;
  p.y_pitch = common.y_pitch;
  p.m = static_cast<unsigned>(a.m);
  p.n = static_cast<unsigned>(a.n);
  p.pieces = static_cast<unsigned>(plan.pieces);
  if (plan.pieces > 1) p.sums = static_cast<char*>(a.workspace) + narrow_x_bytes(a.m, a.k);
  p.slices = static_cast<unsigned>(a.k / kNarrowSlice);
  p.groups = static_cast<unsigned>(plan.groups);
  p.split = static_cast<unsigned>(plan.split);
  p.sides = static_cast<unsigned>(plan.sides);
  memcpy(p.values, common.values, sizeof p.values);
  p.by = common.by;
  KW_TRY(describe_narrow(context, a, &p));
  Launch how{static_cast<uint32_t>(plan.grid), kNarrowThreads};
  how.shared = static_cast<uint32_t>(plan.shared);
  how.cluster = static_cast<uint32_t>(plan.split * plan.sides);
  how.overlap = true;
  KW_TRY(launch(context, narrow_kernels[plan.kind][a.dtype - KW_FLOAT16], how, stream, &p, sizeof p));
  return plan.pieces > 1 ? run_narrow_sum(context, stream, a, common, p) : KW_OK;
}

kw_status run_any(const Context& context, void* stream, const Matmul4bit& a) {
  constexpr int64_t kWarpsABlock = kAnyThreads / 32;
  // Of more rows of x than a launch has blocks for, each half is a launch.
  const int64_t blocks = ratio_up(ratio_up(a.m, kAnyRows) * a.n, kWarpsABlock);
  if (blocks > kMaxBlocks && a.m > kAnyRows) {
    Matmul4bit first = a;
    first.m = a.m / 2;
    KW_TRY(run_any(context, stream, first));
    return run_any(context, stream, later(a, first.m));
  }
  if (blocks > kMaxBlocks)
    return fail(KW_ERROR_UNSUPPORTED,
                "kw_matmul_4bit: n is %lld; a GPU is given at most %lld rows of the weight at once", (long long)a.n,
                (long long)(kMaxBlocks * kWarpsABlock));
  const KwMatmul4bitParams p = params_of(a, 1.0f);
  Launch how{static_cast<uint32_t>(blocks), kAnyThreads};
  how.overlap = true;
  return launch(context, any_kernels[a.dtype], how, stream, &p, sizeof p);
}

inline bool whole_words(const Matmul4bit& a) {
  const int64_t blocks = ratio_up(a.m, kWordsMost) * ratio_up(a.n, kWordsRows);
  return a.dtype == KW_FLOAT32 && a.k % 8 == 0 && a.k > 0 && aligned_to(a.packed, 4) && blocks <= kMaxBlocks;
}

// Warps of a block share k until there are four blocks for each multiprocessor, or there is no more of it.
kw_status run_words(const Context& context, void* stream, const Matmul4bit& a) {
  constexpr int64_t kWarps = kAnyThreads / 32, kBlocks = 4;
  const int64_t groups = a.m == 1 ? 1 : ratio_up(a.m, kWordsMost), rows = ratio_up(a.n, kWordsRows);
  int64_t parts = 1;
  while (parts < kWarps && parts * kWordsStep < a.k &&
         groups * ratio_up(rows * parts, kWarps) < kBlocks * context.device->multiprocessors)
    parts *= 2;
  KwMatmul4bitParams p = params_of(a, 1.0f);
  p.tiles = static_cast<unsigned>(ratio_up(rows * parts, kWarps));
  p.k_warps_log2 = static_cast<unsigned>(log2_of(parts));
  p.vectors = aligned_to(a.x, kVectorBytes) && (a.m == 1 || a.x_stride % 4 == 0);
  Launch how{static_cast<uint32_t>(groups * p.tiles), kAnyThreads};
  how.overlap = true;
  return launch(context, words_kernels[a.m > 1], how, stream, &p, sizeof p);
}

kw_status run_on_device(const Context& context, void* stream, const Matmul4bit& a) {
  if (can_wide(a, context.features)) {
    if (fits_wide(a)) return run_wide(context, stream, a);
    // By groups of rows, for which there is a workspace.
    constexpr int64_t kGroup = kNarrowCols[kNarrowKinds - 1];
    for (int64_t row = 0; row < a.m; row += kGroup) {
      Matmul4bit part = later(a, row);
      if (part.m > kGroup) part.m = kGroup;
      KW_TRY(run_on_device(context, stream, part));
    }
    return KW_OK;
  }
  if (aligned_to(a.packed, kVectorBytes) && takes_narrow(a, *context.device, context.features))
    return run_narrow(context, stream, a);
  if (whole_words(a)) return run_words(context, stream, a);
  if (!tiled(a, context.features)) return run_any(context, stream, a);
  constexpr int64_t kWidest = kCols[kKinds - 1];
  for (int64_t row = 0; row < a.m; row += kWidest) {
    Matmul4bit slice = later(a, row);
    if (slice.m > kWidest) slice.m = kWidest;
    KW_TRY(few_rows(slice) ? run_gemv(context, stream, slice) : run_tile(context, stream, slice));
  }
  return KW_OK;
}

// Of a GPU: the kernels by warpgroups have x there, and what their clusters have of pieces of k.
kw_status workspace_bytes(int32_t device, const Matmul4bit& a, int64_t* bytes) {
  *bytes = 0;
  if (a.m == 0 || a.n == 0 || a.k == 0) return KW_OK;
  if (device == KW_CPU) {
    *bytes = cpu::product_4bit_workspace(a.m, a.k);
    return KW_OK;
  }
  Context context;
  KW_TRY(module_context(module, device, &context));
  if (can_wide(a, context.features)) {
    *bytes = wide_workspace(a, *context.device, context.features);
  } else if (takes_narrow(a, *context.device, context.features)) {
    *bytes = narrow_workspace(a, *context.device);
  }
  return KW_OK;
}

kw_status check_workspace(const char* name, int32_t device, const Matmul4bit& a, int64_t bytes) {
  int64_t needed = 0;
  KW_TRY(workspace_bytes(device, a, &needed));
  if (bytes < needed)
    return fail(KW_ERROR_INVALID_ARGUMENT,
                "%s: workspace_bytes is %lld; this call needs %lld (kw_matmul_4bit_workspace tells)", name,
                (long long)bytes, (long long)needed);
  return needed > 0 ? check_pointer(name, "workspace", a.workspace, kWorkspaceAlignment) : KW_OK;
}

kw_status check(const char* name, int32_t device, const Matmul4bit& a) {
  KW_TRY(check_device(name, device));
  KW_TRY(check_float_type(name, a.dtype));
  KW_TRY(check_blocksize(name, a.blocksize));
  KW_TRY(check_quant_type(name, a.quant_type));
  KW_TRY(check_sizes(name, a.m, a.n, a.k));
  if (a.m == 0 || a.n == 0) return KW_OK;
  const unsigned size = size_of(a.dtype);
  KW_TRY(check_pointer(name, "y", a.y, size));
  if (a.m > 1 && a.y_stride < a.n && a.y_stride > -a.n)
    return fail(KW_ERROR_INVALID_ARGUMENT,
                "%s: y_stride is %lld; rows of %lld elements that are written must not overlap", name,
                (long long)a.y_stride, (long long)a.n);
  if (a.bias != nullptr) KW_TRY(check_pointer(name, "bias", a.bias, size));
  if (a.k == 0) return KW_OK;
  KW_TRY(check_pointer(name, "x", a.x, size));
  KW_TRY(check_pointer(name, "packed", a.packed, 1));
  return check_scales(name, a.scales);
}

kw_status run(const char* name, int32_t device, void* stream, const Matmul4bit& a, int64_t workspace_bytes) {
  KW_TRY(check(name, device, a));
  if (a.m == 0 || a.n == 0) return KW_OK;
  KW_TRY(check_workspace(name, device, a, workspace_bytes));
  if (device == KW_CPU) return cpu::matmul_4bit(a);
  Context context;
  KW_TRY(module_context(module, device, &context));
  return run_on_device(context, stream, a);
}

// All but the workspace.
kw_status read(const char* name, const kw_tensor* y, const kw_tensor* x, const WeightTensors& weight,
               const kw_tensor* bias, int32_t blocksize, Matmul4bit* a, int32_t* device) {
  using namespace four_bit_tensors;
  kw_tensor from, to;
  TensorRows rows, results;
  KW_TRY(read_tensor(name, "x", x, &from));
  KW_TRY(rows_of(name, "x", from, &rows));
  KW_TRY(read_tensor(name, "y", y, &to));
  KW_TRY(rows_beside(name, "y", to, from, to.dims > 0 ? to.sizes[to.dims - 1] : 0, &results));
  a->y = to.data, a->y_stride = results.stride;
  a->x = from.data, a->x_stride = rows.stride;
  a->m = rows.count, a->n = results.cols, a->k = rows.cols;
  a->blocksize = blocksize, a->dtype = from.dtype;
  *device = from.device;
  KW_TRY(check_sizes(name, a->m, a->n, a->k));
  const bool used = a->m > 0 && a->n > 0;
  KW_TRY(read_flat(name, "bias", bias, from, from.dtype, a->n, used, &a->bias));
  return read_weight(name, weight, from, a->n, a->n * a->k, blocksize, used, &a->packed, &a->scales);
}

}  // namespace
}  // namespace kw

KW_API kw_status kw_matmul_4bit(int32_t device, void* stream, void* y, int64_t y_stride, const void* x,
                                int64_t x_stride, const uint8_t* packed, const float* absmax, const uint8_t* codes,
                                const float* absmax2, const float* map, const float* offset, const void* bias,
                                void* workspace, int64_t workspace_bytes, int64_t m, int64_t n, int64_t k,
                                int32_t blocksize, int32_t quant_type, int32_t dtype) {
  kw::Matmul4bit a{};
  a.y = y, a.y_stride = y_stride;
  a.x = x, a.x_stride = x_stride;
  a.packed = packed;
  a.scales = {absmax, codes, absmax2, map, offset, 0, 0};
  a.bias = bias, a.workspace = workspace;
  a.m = m, a.n = n, a.k = k;
  a.blocksize = blocksize, a.quant_type = quant_type, a.dtype = dtype;
  return kw::run("kw_matmul_4bit", device, stream, a, workspace_bytes);
}

KW_API kw_status kw_matmul_4bit_tensors(void* stream, const kw_tensor* y, const kw_tensor* x, const kw_tensor* packed,
                                        const kw_tensor* absmax, const kw_tensor* codes, const kw_tensor* absmax2,
                                        const kw_tensor* map, const kw_tensor* offset, const kw_tensor* bias,
                                        void* workspace, int64_t workspace_bytes, int32_t blocksize,
                                        int32_t quant_type) {
  constexpr const char* kName = "kw_matmul_4bit_tensors";
  kw::Matmul4bit a{};
  int32_t device = KW_CPU;
  KW_TRY(kw::read(kName, y, x, {packed, absmax, codes, absmax2, map, offset}, bias, blocksize, &a, &device));
  a.quant_type = quant_type;
  a.workspace = workspace;
  return kw::run(kName, device, stream, a, workspace_bytes);
}

KW_API kw_status kw_matmul_4bit_workspace(int32_t device, int64_t m, int64_t n, int64_t k, int32_t blocksize,
                                          int32_t dtype, int64_t* bytes) {
  constexpr const char* kName = "kw_matmul_4bit_workspace";
  KW_TRY(kw::check_device(kName, device));
  KW_TRY(kw::check_float_type(kName, dtype));
  KW_TRY(kw::four_bit_checks::check_blocksize(kName, blocksize));
  KW_TRY(kw::check_sizes(kName, m, n, k));
  if (bytes == nullptr) return kw::fail(KW_ERROR_INVALID_ARGUMENT, "%s: bytes is NULL", kName);
  kw::Matmul4bit a{};
  a.m = m, a.n = n, a.k = k, a.blocksize = blocksize, a.dtype = dtype;
  return kw::workspace_bytes(device, a, bytes);
}
