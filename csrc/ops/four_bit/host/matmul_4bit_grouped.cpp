// SPDX-License-Identifier: MIT
// kw_matmul_4bit_grouped: checks its arguments, then runs each expert's product on the CPU, or launches one kernel of
// csrc/ops/four_bit/matmul_4bit_grouped.cu for all of them.
#include "ops/four_bit/api/matmul_4bit_grouped.h"

#include "ops/four_bit/grouped_params.h"
#include "ops/four_bit/host/checks.h"
#include "ops/four_bit/host/matmul_4bit_grouped.h"
#include "ops/four_bit/host/matmul_params.h"
#include "ops/four_bit/host/tensors.h"

namespace kw {
namespace {

using namespace four_bit_checks;
using namespace matmul_4bit_plan;

constexpr int64_t kMostRows = 0x7fffffff - 64;  // of x on a GPU, which counts them in 32 bits

Module module{"matmul_4bit_grouped"};
Kernel any_kernels[3] = {
    {"matmul_4bit_grouped_any_float32"}, {"matmul_4bit_grouped_any_float16"}, {"matmul_4bit_grouped_any_bfloat16"}};
Kernel tile_kernels[2] = {{"matmul_4bit_grouped_tile_float16"}, {"matmul_4bit_grouped_tile_bfloat16"}};

// How many groups of at most so many rows there can be: most where each expert, and the rows of none, has some.
int64_t most_groups(const Grouped4bit& a, int64_t rows) {
  const int64_t m = a.all.m, owners = m < a.experts + 1 ? m : a.experts + 1;
  return owners + (m - owners) / rows;
}

KwMatmul4bitGroupedParams grouped_params(const Grouped4bit& a, const KwMatmul4bitParams& all, int64_t rows) {
  KwMatmul4bitGroupedParams p{};
  p.all = all;
  p.ends = bytes_of(a.ends);
  p.experts = static_cast<unsigned>(a.experts);
  p.rows_log2 = static_cast<unsigned>(log2_of(rows));
  p.groups = static_cast<unsigned>(most_groups(a, rows));
  p.expert_bytes = a.all.n * a.all.k / 2;
  p.expert_scales = a.all.n * a.all.k / a.all.blocksize;
  return p;
}

kw_status too_large(const Grouped4bit& a) {
  return fail(KW_ERROR_UNSUPPORTED,
              "kw_matmul_4bit_grouped: m and n are %lld and %lld; a GPU is given fewer at once, call it for parts of x",
              (long long)a.all.m, (long long)a.all.n);
}

kw_status run_any(const Context& context, void* stream, const Grouped4bit& a) {
  const KwMatmul4bitGroupedParams p = grouped_params(a, params_of(a.all, 1.0f), kAnyRows);
  const int64_t groups = p.groups, warps = kAnyThreads / 32;
  if (groups > kMaxBlocks * warps / a.all.n) return too_large(a);
  Launch how{static_cast<uint32_t>(ratio_up(groups * a.all.n, warps)), kAnyThreads};
  how.overlap = true;
  return launch(context, any_kernels[a.all.dtype], how, stream, &p, sizeof p);
}

// A tile's shape is chosen as for one product with the weights of all groups. row_warps is 0 where no tile fits.
Tile plan_tiles(const Grouped4bit& a, const Device& device) {
  Matmul4bit sized = a.all;
  sized.m = a.all.m < KW_GROUPED_COLS ? a.all.m : KW_GROUPED_COLS;
  sized.n = a.all.n * most_groups(a, KW_GROUPED_COLS);
  Tile plan = plan_kind(sized, device, 0);
  if (plan.row_warps > 0) plan.tiles = ratio_up(a.all.n, rows(plan));
  return plan;
}

bool takes_tiles(const Grouped4bit& a, uint32_t features) {
  const int64_t groups = most_groups(a, KW_GROUPED_COLS);
  return a.all.k > 0 && groups <= kMaxElements / a.all.k / a.all.n && tiled(a.all, features);
}

kw_status run_on_device(const Context& context, void* stream, const Grouped4bit& a) {
  if (a.all.m > kMostRows) return too_large(a);
  if (!takes_tiles(a, context.features)) return run_any(context, stream, a);
  const Tile plan = plan_tiles(a, *context.device);
  KwMatmul4bitParams all = chunked_params(a.all);
  all.tiles = static_cast<unsigned>(plan.tiles);
  all.steps = static_cast<unsigned>(ratio_up(a.all.k, depth(plan)));
  all.row_warps = static_cast<unsigned>(plan.row_warps);
  all.k_warps_log2 = static_cast<unsigned>(plan.k_warps_log2);
  all.stages = static_cast<unsigned>(plan.stages);
  const KwMatmul4bitGroupedParams p = grouped_params(a, all, KW_GROUPED_COLS);
  if (plan.row_warps == 0 || p.groups > kMaxBlocks / plan.tiles) return run_any(context, stream, a);
  Launch how{static_cast<uint32_t>(p.groups * plan.tiles),
             static_cast<uint32_t>(plan.row_warps << plan.k_warps_log2) * 32};
  how.shared = static_cast<uint32_t>(plan.shared);
  how.overlap = true;
  return launch(context, tile_kernels[a.all.dtype - KW_FLOAT16], how, stream, &p, sizeof p);
}

// Each expert's weight must begin with a block, and where scales are quantized, with a block of those.
kw_status check_experts(const char* name, const Grouped4bit& a) {
  const Matmul4bit& all = a.all;
  const int64_t each = all.n * all.k, block = all.blocksize * (all.scales.absmax ? 1 : kScalesABlock);
  if (all.n > 0 && all.k > 0 && a.experts > kMaxElements / each)
    return fail(KW_ERROR_INVALID_ARGUMENT, "%s: experts is %lld; no memory holds so many weights of %lld elements",
                name, (long long)a.experts, (long long)each);
  if (a.experts > 1 && each % block != 0)
    return fail(KW_ERROR_UNSUPPORTED,
                "%s: an expert's weight has %lld elements, which must be a multiple of %lld so that experts share no "
                "block of %s; take smaller blocks, or quantize each expert by itself",
                name, (long long)each, (long long)block, all.scales.absmax ? "elements" : "quantized scales");
  return KW_OK;
}

kw_status check(const char* name, int32_t device, const Grouped4bit& a) {
  const Matmul4bit& all = a.all;
  KW_TRY(check_device(name, device));
  KW_TRY(check_float_type(name, all.dtype));
  KW_TRY(check_blocksize(name, all.blocksize));
  KW_TRY(check_quant_type(name, all.quant_type));
  KW_TRY(check_sizes(name, all.m, all.n, all.k));
  KW_TRY(check_size(name, "experts", a.experts));
  if (a.experts > kMostRows)
    return fail(KW_ERROR_UNSUPPORTED, "%s: experts is %lld; at most %lld are supported", name, (long long)a.experts,
                (long long)kMostRows);
  if (all.m == 0 || all.n == 0) return KW_OK;
  const unsigned size = size_of(all.dtype);
  KW_TRY(check_pointer(name, "y", all.y, size));
  KW_TRY(check_apart(name, "y_stride", all.y_stride, all.m, all.n));
  if (a.experts > 0) KW_TRY(check_pointer(name, "ends", a.ends, sizeof *a.ends));
  if (all.k == 0 || a.experts == 0) return KW_OK;
  KW_TRY(check_pointer(name, "x", all.x, size));
  KW_TRY(check_pointer(name, "packed", all.packed, 1));
  KW_TRY(check_scales(name, all.scales));
  return check_experts(name, a);
}

kw_status check_workspace(const char* name, const Grouped4bit& a) {
  const int64_t needed = cpu::product_4bit_workspace(a.all.m, a.all.k);
  if (a.workspace_bytes < needed)
    return fail(KW_ERROR_INVALID_ARGUMENT,
                "%s: workspace_bytes is %lld; this call needs %lld (kw_matmul_4bit_workspace tells)", name,
                (long long)a.workspace_bytes, (long long)needed);
  return check_pointer(name, "workspace", a.all.workspace, kWorkspaceAlignment);
}

kw_status run(const char* name, int32_t device, void* stream, Grouped4bit a) {
  KW_TRY(check(name, device, a));
  if (a.all.m == 0 || a.all.n == 0) return KW_OK;
  if (a.all.k == 0) a.experts = 0;  // then all is 0, and there is no weight to look at
  if (device == KW_CPU) {
    if (a.experts > 0) KW_TRY(check_workspace(name, a));
    return cpu::matmul_4bit_grouped(a);
  }
  Context context;
  KW_TRY(module_context(module, device, &context));
  return run_on_device(context, stream, a);
}

kw_status read(const char* name, const kw_tensor* y, const kw_tensor* x, const WeightTensors& weight,
               const kw_tensor* ends, int32_t blocksize, Grouped4bit* a, int32_t* device) {
  using namespace four_bit_tensors;
  kw_tensor from, to, last;
  TensorRows rows, results;
  Matmul4bit& all = a->all;
  KW_TRY(read_tensor(name, "x", x, &from));
  KW_TRY(rows_of(name, "x", from, &rows));
  KW_TRY(read_tensor(name, "y", y, &to));
  KW_TRY(rows_beside(name, "y", to, from, to.dims > 0 ? to.sizes[to.dims - 1] : 0, &results));
  all.y = to.data, all.y_stride = results.stride;
  all.x = from.data, all.x_stride = rows.stride;
  all.m = rows.count, all.n = results.cols, all.k = rows.cols;
  all.blocksize = blocksize, all.dtype = from.dtype;
  *device = from.device;
  KW_TRY(check_sizes(name, all.m, all.n, all.k));
  const bool used = all.m > 0 && all.n > 0;
  KW_TRY(read_tensor(name, "ends", ends, &last));
  KW_TRY(count_of(name, "ends", last, used, &a->experts));
  KW_TRY(read_flat(name, "ends", ends, from, KW_INT32, a->experts, used && a->experts > 0, &a->ends));
  const int64_t each = all.n * all.k;
  if (each > 0 && a->experts > kMaxElements / each)
    return fail(KW_ERROR_INVALID_ARGUMENT, "%s: ends has %lld elements; no memory holds so many weights", name,
                (long long)a->experts);
  return read_weight(name, weight, from, 1, a->experts * each, blocksize, used && a->experts > 0, &all.packed,
                     &all.scales);
}

}  // namespace
}  // namespace kw

KW_API kw_status kw_matmul_4bit_grouped(int32_t device, void* stream, void* y, int64_t y_stride, const void* x,
                                        int64_t x_stride, const uint8_t* packed, const float* absmax,
                                        const uint8_t* codes, const float* absmax2, const float* map,
                                        const float* offset, const int32_t* ends, void* workspace,
                                        int64_t workspace_bytes, int64_t m, int64_t experts, int64_t n, int64_t k,
                                        int32_t blocksize, int32_t quant_type, int32_t dtype) {
  kw::Grouped4bit a{};
  a.all.y = y, a.all.y_stride = y_stride;
  a.all.x = x, a.all.x_stride = x_stride;
  a.all.packed = packed;
  a.all.scales = {absmax, codes, absmax2, map, offset, 0, 0};
  a.all.workspace = workspace, a.workspace_bytes = workspace_bytes;
  a.all.m = m, a.all.n = n, a.all.k = k;
  a.all.blocksize = blocksize, a.all.quant_type = quant_type, a.all.dtype = dtype;
  a.ends = ends, a.experts = experts;
  return kw::run("kw_matmul_4bit_grouped", device, stream, a);
}

KW_API kw_status kw_matmul_4bit_grouped_tensors(void* stream, const kw_tensor* y, const kw_tensor* x,
                                                const kw_tensor* packed, const kw_tensor* absmax,
                                                const kw_tensor* codes, const kw_tensor* absmax2, const kw_tensor* map,
                                                const kw_tensor* offset, const kw_tensor* ends, void* workspace,
                                                int64_t workspace_bytes, int32_t blocksize, int32_t quant_type) {
  constexpr const char* kName = "kw_matmul_4bit_grouped_tensors";
  kw::Grouped4bit a{};
  int32_t device = KW_CPU;
  KW_TRY(kw::read(kName, y, x, {packed, absmax, codes, absmax2, map, offset}, ends, blocksize, &a, &device));
  a.all.quant_type = quant_type;
  a.all.workspace = workspace, a.workspace_bytes = workspace_bytes;
  return kw::run(kName, device, stream, a);
}
