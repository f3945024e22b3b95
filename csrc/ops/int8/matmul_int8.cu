// SPDX-License-Identifier: MIT
// The product of rows of 8-bit integers: on any GPU, by warps, of few rows; and by warpgroups, where blocks of a pair
// share columns.
#include "ops/int8/device/kinds.cuh"
#include "ops/int8/device/matmul_any.cuh"
#include "ops/int8/device/matmul_few.cuh"
#include "ops/int8/device/matmul_tile.cuh"
#include "ops/int8/device/matmul_wgmma.cuh"

extern "C" __global__ void __launch_bounds__(KW_ANY_THREADS) matmul_int8_any(const KwMatmulAnyParams p) {
  kw::matmul_any<kw::Int8Words>(p);
}

#if defined(KW_HAS_INT8_MMA) && defined(KW_HAS_CP_ASYNC)

#ifndef KW_HAS_WGMMA  // which is the faster way, for every call that this one serves

extern "C" __global__ void __launch_bounds__(KW_MATMUL_TILE_THREADS, 1) matmul_int8_tile(const KwMatmulAnyParams p) {
  kw::MatmulTile<kw::Int8Warps>(p).run();
}

#endif

#define MATMUL_FEW_KERNEL(parts)                                            \
  extern "C" __global__ void __launch_bounds__(KW_MATMUL_FEW_WARPS * 32, 2) \
      matmul_int8_few_##parts(const KwMatmulAnyParams p) {                  \
    kw::MatmulFew<kw::Int8Warps, parts>(p).run();                           \
  }
MATMUL_FEW_KERNEL(1)
MATMUL_FEW_KERNEL(2)

#endif

#ifdef KW_HAS_WGMMA

#define MATMUL_KERNEL(name, cluster, columns)                        \
  extern "C" __global__ void __launch_bounds__(KW_MATMUL_THREADS, 1) \
      matmul_int8_##name(const __grid_constant__ KwMatmulParams p) { \
    kw::MatmulBytes<kw::Int8Kind, cluster, columns>(p).run();        \
  }
MATMUL_KERNEL(single_64, 1, 64)
MATMUL_KERNEL(single_128, 1, 128)
MATMUL_KERNEL(single_256, 1, 256)
MATMUL_KERNEL(pair_256, 2, 256)

#endif
