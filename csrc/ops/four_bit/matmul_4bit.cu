// SPDX-License-Identifier: MIT
// x times a weight of 4-bit codes. Which of these kernels runs, and in what geometry, is the launcher's choice
// (csrc/ops/four_bit/host/matmul_plan.h).
//
//   rows   float16 and bfloat16 on tensor cores, for 1, 2 and up to 4, 8, 16 rows of x: k a multiple of 128, scales of
//          64 elements or more, whole vectors
//   tile   the same for up to 32 or 64 rows: k a multiple of 32
//   narrow  the same by warpgroups, for any number of rows in groups of up to 8, 16, 32 or 64: k a multiple of 64, on
//          Hopper;
//          narrow_x brings x into its order, narrow_sum adds up what clusters have of pieces of k
//   wide   the same of more rows, in tiles of up to 96, 128, 160, 192 or 256: k a multiple of 32; wide_begin before it
//          where blocks share tiles
//   words  float32, for 1 and up to 4 rows of x at once, where eight codes of a row are a whole word
//   any    everything else
#include "ops/four_bit/device/matmul_any.cuh"
#ifdef KW_HAS_WGMMA
#include "ops/four_bit/device/matmul_narrow.cuh"
#include "ops/four_bit/device/matmul_narrow_sum.cuh"
#include "ops/four_bit/device/matmul_wide.cuh"
#endif
#include "ops/four_bit/device/matmul_gemv.cuh"
#include "ops/four_bit/device/matmul_tile.cuh"
#include "ops/four_bit/device/matmul_words.cuh"
#include "ops/four_bit/matmul_tuning.h"

// The names are the launcher's: matmul_4bit_<kind>_<type>. How many threads a block has and how many blocks a
// multiprocessor bounds the registers.
#define KW_ANY(name, T)                                                                                              \
  extern "C" __global__ void __launch_bounds__(kw::kAnyThreads) matmul_4bit_any_##name(const KwMatmul4bitParams p) { \
    kw::matmul_4bit_any<kw::T>(p);                                                                                   \
  }
#define KW_WORDS(rows)                                                             \
  extern "C" __global__ void __launch_bounds__(kw::kAnyThreads, rows == 1 ? 2 : 1) \
      matmul_4bit_words##rows##_float32(const KwMatmul4bitParams p) {              \
    kw::Words4bit<rows>(p).run();                                                  \
  }
#define KW_GEMV(cols, ranges, type, T)                                             \
  extern "C" __global__ void __launch_bounds__(kw::kGemvThreads, cols > 8 ? 1 : 2) \
      matmul_4bit_gemv##cols##_##type(const KwMatmul4bitParams p) {                \
    kw::Gemv4bit<kw::T, cols, ranges>(p).run();                                    \
  }
#define KW_TILE(cols, tiles, type, T)                                         \
  extern "C" __global__ void __launch_bounds__(KW_TILE##cols##_WARPS * 32, 1) \
      matmul_4bit_tile##cols##_##type(const KwMatmul4bitParams p) {           \
    kw::Tile4bit<kw::T, cols, tiles>(p).run();                                \
  }
#define KW_NARROW(cols, type, T)                                                              \
  extern "C" __global__ void __launch_bounds__(kw::kNarrowWarps* kw::kWarp, 1)                \
      matmul_4bit_narrow##cols##_##type(const __grid_constant__ KwMatmul4bitNarrowParams p) { \
    kw::Narrow4bit<kw::T, cols>(p).run();                                                     \
  }
#define KW_NARROW_SUM(type, T)                                             \
  extern "C" __global__ void __launch_bounds__(kw::kNarrowSumThreads)      \
      matmul_4bit_narrow_sum_##type(const KwMatmul4bitNarrowSumParams p) { \
    kw::matmul_4bit_narrow_sum<kw::T>(p);                                  \
  }
#define KW_WIDE(cols, type, T)                                                            \
  extern "C" __global__ void __launch_bounds__(kw::kWideThreads, 1)                       \
      matmul_4bit_wide##cols##_##type(const __grid_constant__ KwMatmul4bitWideParams p) { \
    kw::Wide4bit<kw::T, cols>(p).run();                                                   \
  }
#define KW_TENSOR(type, T) \
  KW_GEMV(1, 4, type, T)   \
  KW_GEMV(2, 2, type, T)   \
  KW_GEMV(4, 1, type, T)   \
  KW_GEMV(8, 0, type, T)   \
  KW_GEMV(16, 0, type, T)  \
  KW_TILE(32, 2, type, T)  \
  KW_TILE(64, 4, type, T)

KW_WORDS(1)
KW_WORDS(4)
KW_ANY(float32, Float32)
KW_ANY(float16, Float16)
KW_ANY(bfloat16, BFloat16)
#ifdef KW_HAS_BF16_MMA
KW_TENSOR(float16, Float16)
KW_TENSOR(bfloat16, BFloat16)
#endif
#ifdef KW_HAS_WGMMA
extern "C" __global__ void __launch_bounds__(kw::kNarrowXThreads)
    matmul_4bit_narrow_x(const KwMatmul4bitNarrowXParams p) {
  kw::matmul_4bit_narrow_x(p);
}
KW_NARROW_SUM(float16, Float16)
KW_NARROW_SUM(bfloat16, BFloat16)
KW_NARROW(8, float16, Float16)
KW_NARROW(16, float16, Float16)
KW_NARROW(32, float16, Float16)
KW_NARROW(64, float16, Float16)
KW_NARROW(8, bfloat16, BFloat16)
KW_NARROW(16, bfloat16, BFloat16)
KW_NARROW(32, bfloat16, BFloat16)
KW_NARROW(64, bfloat16, BFloat16)
extern "C" __global__ void __launch_bounds__(kw::kWideBeginThreads)
    matmul_4bit_wide_begin(const KwMatmul4bitWideBeginParams p) {
  kw::matmul_4bit_wide_begin(p);
}
KW_WIDE(96, float16, Float16)
KW_WIDE(128, float16, Float16)
KW_WIDE(160, float16, Float16)
KW_WIDE(192, float16, Float16)
KW_WIDE(256, float16, Float16)
KW_WIDE(96, bfloat16, BFloat16)
KW_WIDE(128, bfloat16, BFloat16)
KW_WIDE(160, bfloat16, BFloat16)
KW_WIDE(192, bfloat16, BFloat16)
KW_WIDE(256, bfloat16, BFloat16)
#endif
