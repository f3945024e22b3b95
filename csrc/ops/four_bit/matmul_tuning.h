/* SPDX-License-Identifier: MIT */
/*
 * What a measurement may change about csrc/ops/four_bit/matmul_4bit.cu, for its kernels and their launcher alike.
 * Chosen by reading machine code and by counting bytes. benchmarks/variants.py builds wheels with other numbers.
 */
#ifndef KW_MATMUL_4BIT_TUNING_H
#define KW_MATMUL_4BIT_TUNING_H

/* Up to 32 and up to 64 rows of x: warps a block at most, and stages of its pipeline at most. */
#define KW_TILE32_WARPS 16
#define KW_TILE64_WARPS 8
#define KW_TILE_STAGES 4

/*
 * By warpgroups: up to how many rows of x of a group the product begins before the kernel that orders x has waited, and
 * waits for it before it sends for weights. With more it sends for weights as soon as that one has waited.
 */
#define KW_NARROW_EARLY_COLS 16

#endif
