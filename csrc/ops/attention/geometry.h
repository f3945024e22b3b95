/* SPDX-License-Identifier: MIT */
/* Tiles of the general kernels of attention, for host and device. */
#ifndef KW_ATTENTION_GEOMETRY_H
#define KW_ATTENTION_GEOMETRY_H

/* Threads of a block; keys of a tile; sizes of heads that there are kernels for: others are filled up with zeros. */
enum { KW_ATTENTION_THREADS = 128, KW_ATTENTION_KEYS = 64 };
enum { KW_ATTENTION_SMALL = 64, KW_ATTENTION_MIDDLE = 128, KW_ATTENTION_LARGE = 256 };

/* Queries of a tile: each warp has 32, or 16 where a row is long. */
#define KW_ATTENTION_ROWS(d) ((d) > KW_ATTENTION_MIDDLE ? 64 : 128)

/* Shared memory: queries, keys and values. */
#define KW_ATTENTION_SHARED(d) ((KW_ATTENTION_ROWS(d) + 2 * KW_ATTENTION_KEYS) * (d) * 2)

#endif
