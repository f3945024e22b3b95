// SPDX-License-Identifier: MIT
// A product, which matmul_4bit is and experts' is made of: rows of the weight are taken apart among the threads, after
// those of x were made float32 once for all of them.
#include "cpu/pages.h"
#include "cpu/pool.h"
#include "ops/four_bit/cpu/few.h"
#include "ops/four_bit/cpu/many.h"

#if KW_CPU_HAS_TILES
#include "ops/four_bit/cpu/tiles.h"
#endif

namespace kw::cpu {

KW_CPU_RANGE(product_4bit_inputs)
KW_CPU_RANGE(product_4bit_groups)
KW_CPU_TILES(product_4bit_tile_inputs)
KW_CPU_TILES(product_4bit_tiles)

namespace KW_ISA {

void product_4bit_inputs(const void* context, int64_t begin, int64_t end) {
  const Product& p = *static_cast<const Product*>(context);
  if (p.a.dtype == KW_FLOAT32) return widen_rows<float>(p, begin, end);
  if (p.a.dtype == KW_FLOAT16) return widen_rows<Half>(p, begin, end);
  return widen_rows<BFloat16>(p, begin, end);
}

// Of kWeightRows rows of the weight.
void product_4bit_groups(const void* context, int64_t begin, int64_t end) {
  const Product& p = *static_cast<const Product*>(context);
  const int64_t row = begin * kWeightRows, last = end * kWeightRows, stop = last < p.a.n ? last : p.a.n;
  return few(p.a) ? product_of_few(p, row, stop) : product_of_many(p, row, stop);
}

}  // namespace KW_ISA

#if KW_CPU_BASELINE
int64_t product_4bit_workspace(int64_t m, int64_t k) {
  const int64_t rows = m < kMostRows ? m : kMostRows, tiles = tile_groups(rows) * kTileRows;
  const auto usual = rows * static_cast<int64_t>(sizeof(float)), tiled = tiles * static_cast<int64_t>(sizeof(BFloat16));
  return pitch_of(k) * (usual < tiled ? tiled : usual);
}

// false: the matrix unit would be wrong.
static bool product_by_tiles(Product& p) {
  constexpr int64_t kElements = 24576, kWeights = 32768;  // fewer take this thread less than another takes to wake up
  int odd = 0;
  p.odd = &odd;
  parallel_for(p.a.k / kTileMultiple, 1 + kElements / (p.a.m * kTileMultiple), picked_product_4bit_tile_inputs(), &p);
  if (odd == 0) {
    parallel_for((p.a.n + kTileRows - 1) / kTileRows, 1 + kWeights / (p.a.k * kTileRows), picked_product_4bit_tiles(),
                 &p);
  }
  return odd == 0;
}

static bool tiled(const Matmul4bit& a) {
  return a.m >= kFewestTiled && a.k > 0 && a.k % kTileMultiple == 0 && a.dtype == KW_BFLOAT16 && has_tiles();
}

kw_status product_4bit(const Matmul4bit& args) {
  // A part of fewer products takes this thread less than the 5 to 10 us in which another wakes up.
  constexpr int64_t kProducts = 131072, kElements = 24576;
  const int64_t size = args.dtype == KW_FLOAT32 ? 4 : 2;
  will_write(args.y, args.m, args.y_stride, args.n * size, size);
  for (int64_t row = 0; row < args.m; row += kMostRows) {
    Product p{args, static_cast<float*>(args.workspace), pitch_of(args.k), nullptr};
    p.a.x = static_cast<const char*>(args.x) + row * args.x_stride * size;
    p.a.y = static_cast<char*>(args.y) + row * args.y_stride * size;
    p.a.m = args.m - row < kMostRows ? args.m - row : kMostRows;
    if (tiled(p.a) && product_by_tiles(p)) continue;
    const int64_t work = p.a.m * (p.a.k + 1);
    parallel_for(p.a.m, 1 + kElements / (p.a.k + 1), picked_product_4bit_inputs(), &p);
    parallel_for((p.a.n + kWeightRows - 1) / kWeightRows, 1 + kProducts / (work * kWeightRows),
                 picked_product_4bit_groups(), &p);
  }
  return KW_OK;
}
#endif

}  // namespace kw::cpu
