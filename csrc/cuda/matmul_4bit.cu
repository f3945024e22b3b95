// SPDX-License-Identifier: MIT
// x times a weight of 4-bit codes. Which of these kernels runs, and in what geometry, is the launcher's choice
// (csrc/host/ops/matmul_4bit_plan.h).
//
//   tile   float16 and bfloat16 on tensor cores, for up to 8, 16, 32 or 64 rows of x: k a multiple of 32, whole vectors
//   words  float32, where eight codes of a row are a whole word
//   any    everything else
#include "matmul_4bit_any.cuh"
#include "matmul_4bit_tile.cuh"

// The names are the launcher's: matmul_4bit_<kind>_<type>. Of blocks of `threads` a multiprocessor holds at least
// `blocks`, which bounds the registers.
#define KW_ANY(name, T, words)                                                                       \
  extern "C" __global__ void __launch_bounds__(256) matmul_4bit_##name(const KwMatmul4bitParams p) { \
    kw::matmul_4bit_any<kw::T, words>(p);                                                            \
  }
#define KW_TILE(cols, tiles, blocks, type, T)                       \
  extern "C" __global__ void __launch_bounds__(256, blocks)         \
      matmul_4bit_tile##cols##_##type(const KwMatmul4bitParams p) { \
    kw::Tile4bit<kw::T, cols, tiles>(p).run();                      \
  }
#define KW_TILES(type, T)    \
  KW_TILE(8, 2, 2, type, T)  \
  KW_TILE(16, 2, 2, type, T) \
  KW_TILE(32, 2, 2, type, T) \
  KW_TILE(64, 4, 1, type, T)

KW_ANY(words_float32, Float32, true)
KW_ANY(any_float32, Float32, false)
KW_ANY(any_float16, Float16, false)
KW_ANY(any_bfloat16, BFloat16, false)
#ifdef KW_HAS_BF16_MMA
KW_TILES(float16, Float16)
KW_TILES(bfloat16, BFloat16)
#endif
