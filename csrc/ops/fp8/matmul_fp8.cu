// SPDX-License-Identifier: MIT
// The product of rows of e4m3: on any GPU; and by warpgroups, where blocks of a pair share columns.
#include "device/ptx/wgmma_e4m3_shared.cuh"
#include "ops/fp8/device/any.cuh"
#include "ops/int8/device/matmul_wgmma.cuh"

extern "C" __global__ void __launch_bounds__(KW_MATMUL_FP8_ANY_THREADS) matmul_fp8_any(const KwMatmulFp8AnyParams p) {
  kw::MatmulFp8Any(p).run();
}

#ifdef KW_HAS_WGMMA

namespace kw {

struct E4m3Kind {
  using Params = KwMatmulFp8Params;
  using Sum = float;
  static constexpr bool kPromotes = true;

  template <u32 kCount>
  __device__ __forceinline__ static void multiply(float (&d)[kCount], u64 left, u64 right, u32 add) {
    wgmma_e4m3(d, left, right, add);
  }

  __device__ __forceinline__ static int activation(const Params& p) { return p.activation; }
};

}  // namespace kw

#define MATMUL_KERNEL(name, cluster, columns)                          \
  extern "C" __global__ void __launch_bounds__(KW_MATMUL_THREADS, 1)   \
      matmul_fp8_##name(const __grid_constant__ KwMatmulFp8Params p) { \
    kw::MatmulBytes<kw::E4m3Kind, cluster, columns>(p).run();          \
  }
MATMUL_KERNEL(single_64, 1, 64)
MATMUL_KERNEL(single_128, 1, 128)
MATMUL_KERNEL(single_256, 1, 256)
MATMUL_KERNEL(pair_256, 2, 256)

#endif
