/* SPDX-License-Identifier: MIT */
/*
 * What a measurement may change about csrc/cuda/matmul_4bit.cu, for its kernels and their launcher alike. Chosen by
 * reading machine code and by counting bytes; none of it has been measured yet. benchmarks/variants.py builds wheels
 * with other numbers.
 */
#ifndef KW_MATMUL_4BIT_TUNING_H
#define KW_MATMUL_4BIT_TUNING_H

/* Up to 8 and up to 16 rows of x: units of 16 rows of the weight that a warp takes at once, warps side by side along
 * them, of eight; slots of each warp's ring, of which all but one are on their way; blocks of a multiprocessor. */
#define KW_ROWS8_UNITS 7
#define KW_ROWS8_ROW_WARPS 1
#define KW_ROWS16_UNITS 4
#define KW_ROWS16_ROW_WARPS 2
#define KW_ROWS_SLOTS 4
#define KW_ROWS_RESIDENT 2

/* Up to 32 and up to 64 rows of x: warps a block at most, and stages of its pipeline at most. */
#define KW_TILE32_WARPS 16
#define KW_TILE64_WARPS 8
#define KW_TILE_STAGES 4

#endif
