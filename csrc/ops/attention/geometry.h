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

/* Derivatives: 64 rows of a block, and tiles of the others: of keys for queries, of queries for keys. */
enum { KW_ATTENTION_BACKWARD_ROWS = 64 };
#define KW_ATTENTION_OTHER(d) ((d) > KW_ATTENTION_MIDDLE ? 32 : 64)
#define KW_ATTENTION_BACKWARD_SHARED(d) \
  ((KW_ATTENTION_BACKWARD_ROWS + KW_ATTENTION_OTHER(d)) * 2 * (d) * 2 + KW_ATTENTION_OTHER(d) * 8)

/* By warpgroups: those that compute have 64 queries each, one copies. Where rows are short there are three, as what
 * they do between products takes longer. */
#define KW_ATTENTION_TMA_GROUPS(d) ((d) > KW_ATTENTION_SMALL ? 2 : 3)
#define KW_ATTENTION_TMA_ROWS(d) (64 * KW_ATTENTION_TMA_GROUPS(d))
#define KW_ATTENTION_TMA_THREADS(d) (128 * (KW_ATTENTION_TMA_GROUPS(d) + 1))
enum { KW_ATTENTION_TMA_STAGES = 2 };

/* Keys of a tile, by elements of a row. */
#define KW_ATTENTION_TMA_KEYS(d) ((d) > 192 ? 80 : 128)

/* Rows are in columns of 64 elements. */
#define KW_ATTENTION_TMA_COLUMNS(d) (((d) + 63) / 64)

/* Results go through memory of their own, or, where there is no more, that of the queries. */
#define KW_ATTENTION_TMA_APART(d) ((d) <= 128)

/* Shared memory: queries, stages of keys and values, results, a word for each thread that computes, barriers. Up to
 * 1024 bytes go where they begin on a multiple of as many. */
#define KW_ATTENTION_TMA_SHARED(d, d_v)                                                         \
  (1024 + KW_ATTENTION_TMA_COLUMNS(d) * KW_ATTENTION_TMA_ROWS(d) * 128 +                        \
   KW_ATTENTION_TMA_STAGES * (KW_ATTENTION_TMA_COLUMNS(d) + KW_ATTENTION_TMA_COLUMNS(d_v)) *    \
       KW_ATTENTION_TMA_KEYS(d) * 128 +                                                         \
   KW_ATTENTION_TMA_APART(d) * KW_ATTENTION_TMA_COLUMNS(d_v) * KW_ATTENTION_TMA_ROWS(d) * 128 + \
   KW_ATTENTION_TMA_GROUPS(d) * 512 + 128)

#endif
