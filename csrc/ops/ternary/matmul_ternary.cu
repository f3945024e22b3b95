// SPDX-License-Identifier: MIT
// Products of rows of 8-bit integers and ternary weights: of few rows; by warps; and by warpgroups, where blocks of a
// pair share rows of x, or tiles have 64 or 32 of them.
#include "ops/ternary/device/few.cuh"
#include "ops/ternary/device/tiles.cuh"
#include "ops/ternary/device/warpgroups.cuh"

#if defined(KW_HAS_INT8_MMA) && defined(KW_HAS_CP_ASYNC)

// Two blocks of the first on a multiprocessor: the next kernel's begin while this one's end.
#define MATMUL_TERNARY_FEW(rows, threads, at_once)                  \
  extern "C" __global__ void __launch_bounds__(threads, at_once)    \
      matmul_ternary_few_##rows(const KwMatmulTernaryFewParams p) { \
    kw::TernaryFew<rows / 8, kw::TernaryRows>(p, {p}).run();        \
  }
MATMUL_TERNARY_FEW(8, 512, 2)
MATMUL_TERNARY_FEW(16, 512, 1)
MATMUL_TERNARY_FEW(32, 256, 1)

extern "C" __global__ void __launch_bounds__(128, 2) matmul_ternary_tiles(const KwMatmulTernaryTileParams p) {
  kw::TernaryTiles(p).run();
}

#endif

#ifdef KW_HAS_WGMMA

#define MATMUL_TERNARY_WIDE(name, cluster, columns)                                \
  extern "C" __global__ void __launch_bounds__(KW_TERNARY_WIDE_THREADS, 1)         \
      matmul_ternary_##name(const __grid_constant__ KwMatmulTernaryWideParams p) { \
    kw::TernaryWide<cluster, columns>(p).run();                                    \
  }
MATMUL_TERNARY_WIDE(single, 1, 128)
MATMUL_TERNARY_WIDE(pair, 2, 128)
MATMUL_TERNARY_WIDE(of_64, 1, 64)
MATMUL_TERNARY_WIDE(of_32, 1, 32)

#endif
