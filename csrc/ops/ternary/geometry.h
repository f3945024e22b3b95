/* SPDX-License-Identifier: MIT */
/* Where a weight's codes lie, for host, device and CPU alike.
 *
 * A block is 16 rows of 128 of k in 512 bytes; a row of blocks (all of k) follows the other. A warp's lanes have 16
 * bytes of a block each, and these are what mma.m16n8k32 and wgmma take of a left matrix: byte j of word i of lane l
 * has, in its bits 2 p and 2 p + 1, the code of
 *
 *   row l / 4 + i % 2 * 8,   k = p * 32 + i / 2 * 16 + l % 4 * 4 + j
 *
 * The code of a weight w is w + 1; rows and k past the weight's have code 1, which is 0.
 */
#ifndef KW_TERNARY_GEOMETRY_H
#define KW_TERNARY_GEOMETRY_H

enum { KW_TERNARY_ROWS = 16, KW_TERNARY_DEPTH = 128, KW_TERNARY_BLOCK = 512, KW_TERNARY_STEPS = 4 };

#endif
