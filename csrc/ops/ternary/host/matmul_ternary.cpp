// SPDX-License-Identifier: MIT
// kw_matmul_ternary: checks its arguments, then runs on the CPU or plans a launch of
// csrc/ops/ternary/matmul_ternary.cu.
#include "ops/ternary/api/matmul_ternary.h"

#include "core/tensor_map.h"
#include "ops/ternary/host/plan.h"

namespace kw {
namespace {

using namespace ternary_plan;

constexpr unsigned kGroup = 4;  // rows of tiles, or of pairs of them, that are computed together
constexpr int64_t kMaxBlocks = 0x7fffffff;

Module module{"matmul_ternary"};
Kernel few_kernels[3] = {{"matmul_ternary_few_8"}, {"matmul_ternary_few_16"}, {"matmul_ternary_few_32"}};
Kernel tiles_kernel{"matmul_ternary_tiles"};

struct Wide {
  Kernel kernel;
  int64_t width;
  int cluster;
  uint32_t shared;
};
Wide wide_kernels[4] = {{{"matmul_ternary_of_32"}, 32, 1, KW_TERNARY_WIDE_SHARED(32, KW_TERNARY_STAGES_OF_32)},
                        {{"matmul_ternary_of_64"}, 64, 1, KW_TERNARY_WIDE_SHARED(64, KW_TERNARY_STAGES_OF_64)},
                        {{"matmul_ternary_single"}, 128, 1, KW_TERNARY_WIDE_SHARED(128, KW_TERNARY_WIDE_STAGES)},
                        {{"matmul_ternary_pair"}, 128, 2, KW_TERNARY_WIDE_SHARED(128, KW_TERNARY_WIDE_STAGES)}};

Wide& wide_for(const Tiles& plan) {
  size_t i = 0;
  while (wide_kernels[i].width != plan.width || wide_kernels[i].cluster != plan.cluster) ++i;
  return wide_kernels[i];
}

kw_status check_result(const char* name, const MatmulTernary& a) {
  if (a.dtype == KW_INT32) {
    if (a.absmax == nullptr && a.scale == nullptr && a.bias == nullptr) return KW_OK;
    return fail(KW_ERROR_INVALID_ARGUMENT,
                "%s: dtype is KW_INT32, the sums themselves; absmax, scale and bias must be NULL", name);
  }
  return check_float_type(name, a.dtype);
}

kw_status check(const char* name, int32_t device, const MatmulTernary& a) {
  KW_TRY(check_result(name, a));
  KW_TRY(check_product(name, device, a, a.x, 1));
  return a.absmax == nullptr || a.m == 0 || a.n == 0 ? KW_OK : check_pointer(name, "absmax", a.absmax, 4);
}

kw_status run_few(const Context& context, void* stream, const MatmulTernary& a) {
  const Few plan = few_for(a, *context.device, context.features);
  KwMatmulTernaryFewParams p = few_params(a, plan);
  p.x = reinterpret_cast<const char*>(a.x);
  p.x_pitch = a.x_stride;
  p.vectors = boxes(a);
  const Launch how = few_launch(plan);
  return launch(context, few_kernels[plan.tiles / 2], how, stream, &p, sizeof p);
}

kw_status run_tiles(const Context& context, void* stream, const MatmulTernary& a) {
  const Tiles plan = tiles_for(a, *context.device, false);
  if (plan.grid > kMaxBlocks)
    return fail(KW_ERROR_UNSUPPORTED,
                "kw_matmul_ternary: m and n are %lld and %lld; a GPU is given at most %lld tiles of 128 x 128",
                (long long)a.m, (long long)a.n, (long long)kMaxBlocks);
  KwMatmulTernaryTileParams p{};
  p.end = end_of(a);
  p.x = reinterpret_cast<const char*>(a.x);
  p.packed = reinterpret_cast<const char*>(a.packed);
  p.x_pitch = a.x_stride;
  p.k = static_cast<unsigned>(a.k);
  p.groups = static_cast<unsigned>(groups_of(a.n));
  p.blocks = static_cast<unsigned>(blocks_of(a.k));
  p.rows = static_cast<unsigned>(plan.rows);
  p.columns = static_cast<unsigned>(plan.columns);
  p.group = kGroup;
  p.vectors = boxes(a);
  Launch how{static_cast<uint32_t>(plan.grid), KW_TERNARY_TILE_WARPS * 32};
  how.shared = KW_TERNARY_TILE_SHARED;
  how.overlap = true;
  return launch(context, tiles_kernel, how, stream, &p, sizeof p);
}

// Boxes of 8 blocks of 512 bytes, 32-bit words of them, one above the other.
TensorMap blocks_map(const MatmulTernary& a) {
  constexpr int64_t kWords = KW_TERNARY_BLOCK / 4, kBox = KW_TERNARY_TILE_ROWS / KW_TERNARY_ROWS;
  const int64_t blocks = blocks_of(a.k);
  return {a.packed,
          KW_INT32,
          3,
          {kWords, blocks, groups_of(a.n)},
          {0, KW_TERNARY_BLOCK, blocks * KW_TERNARY_BLOCK},
          {kWords, 1, kBox},
          Swizzle::kNone};
}

kw_status run_wide(const Context& context, void* stream, const MatmulTernary& a) {
  const Tiles plan = tiles_for(a, *context.device, true);
  KwMatmulTernaryWideParams p{};
  const int64_t pitch = a.m > 1 ? a.x_stride : ratio_up(a.k, 16) * 16;
  KW_TRY(encode(context,
                matrix_map(a.x, KW_INT8, a.m, a.k, pitch, plan.width / plan.cluster, KW_TERNARY_DEPTH, Swizzle::k128),
                &p.x));
  KW_TRY(encode(context, blocks_map(a), &p.packed));
  p.end = end_of(a);
  const int64_t together = plan.width < KW_TERNARY_TILE_COLUMNS ? 2 : 1;  // what is past the end is 0
  p.steps = static_cast<unsigned>(ratio_up(blocks_of(a.k), together) * together);
  p.rows = static_cast<unsigned>(plan.rows);
  p.columns = static_cast<unsigned>(plan.columns);
  p.group = kGroup;
  Launch how{static_cast<uint32_t>(plan.grid), KW_TERNARY_WIDE_THREADS};
  Wide& wide = wide_for(plan);
  how.shared = wide.shared;
  how.cluster = static_cast<uint32_t>(plan.cluster);
  how.overlap = true;
  return launch(context, wide.kernel, how, stream, &p, sizeof p);
}

kw_status run(const char* name, int32_t device, void* stream, const MatmulTernary& a) {
  KW_TRY(check(name, device, a));
  if (a.m == 0 || a.n == 0) return KW_OK;
  if (device == KW_CPU) return cpu::matmul_ternary(a);
  KW_TRY(check_counts(name, a.m, a.n, a.k));
  Context context;
  KW_TRY(module_context(module, device, &context));
  KW_TRY(check_features(name, context));
  switch (way_of(a, context.features)) {
    case Way::kFew:
      return run_few(context, stream, a);
    case Way::kTiles:
      return run_tiles(context, stream, a);
    default:
      return run_wide(context, stream, a);
  }
}

}  // namespace
}  // namespace kw

KW_API kw_status kw_matmul_ternary(int32_t device, void* stream, void* y, int64_t y_stride, const int8_t* x,
                                   int64_t x_stride, const uint8_t* packed, const float* absmax, const float* scale,
                                   int64_t scales, const void* bias, int64_t m, int64_t n, int64_t k, int32_t dtype) {
  const kw::MatmulTernary a{y, x, packed, absmax, scale, bias, y_stride, x_stride, scale == nullptr ? 1 : scales,
                            m, n, k,      dtype};
  return kw::run("kw_matmul_ternary", device, stream, a);
}

KW_API kw_status kw_ternary_bytes(int64_t n, int64_t k, int64_t* bytes) {
  constexpr const char* kName = "kw_ternary_bytes";
  if (bytes == nullptr) return kw::fail(KW_ERROR_INVALID_ARGUMENT, "%s: bytes is NULL", kName);
  KW_TRY(kw::ternary::check_weight(kName, n, k));
  *bytes = kw::ternary::groups_of(n) * kw::ternary::blocks_of(k) * KW_TERNARY_BLOCK;
  return KW_OK;
}
