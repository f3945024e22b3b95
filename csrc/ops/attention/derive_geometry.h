/* SPDX-License-Identifier: MIT */
/* Tiles of the derivatives of attention by warpgroups, for host and device. */
#ifndef KW_ATTENTION_DERIVE_GEOMETRY_H
#define KW_ATTENTION_DERIVE_GEOMETRY_H

#include "ops/attention/geometry.h"

/* Two warpgroups compute, one copies. They have 64 keys of a block each, or where rows are long half the columns of
 * its 64, and go through tiles of queries. */
enum {
  KW_ATTENTION_DERIVE_THREADS = 384,
  KW_ATTENTION_DERIVE_STAGES = 2,
  KW_ATTENTION_PREPARE_THREADS = 128,
  KW_ATTENTION_COLLECT_THREADS = 256
};
#define KW_ATTENTION_DERIVE_KEYS(d) ((d) > KW_ATTENTION_MIDDLE ? 64 : 128)
#define KW_ATTENTION_DERIVE_QUERIES(d) ((d) > KW_ATTENTION_SMALL ? 64 : 128)

/* Columns of dk and dv that a warpgroup has. */
#define KW_ATTENTION_DERIVE_RESULTS(d) ((d) > KW_ATTENTION_MIDDLE ? (d) / 2 : (d))

/* Bytes of a tile of queries in scratch memory: two numbers of each, and the sums of what is their derivative. */
#define KW_ATTENTION_DERIVE_NUMBERS(d) (KW_ATTENTION_DERIVE_QUERIES(d) * 8)
#define KW_ATTENTION_DERIVE_SUMS(d) (KW_ATTENTION_DERIVE_QUERIES(d) * (d) * 4)

/* Sums of dq wait in shared memory of their own until they have left, where there is some. */
#define KW_ATTENTION_DERIVE_APART(d) ((d) <= KW_ATTENTION_MIDDLE)

/* Shared memory: keys, values; stages of queries, of their results' derivatives and of numbers; two tiles of the
 * scores' derivatives, and where rows are long one of probabilities; a word for each thread that computes; barriers;
 * sums. */
#define KW_ATTENTION_DERIVE_SHARED(d)                                                                             \
  (1024 +                                                                                                         \
   KW_ATTENTION_TMA_COLUMNS(d) * 128 *                                                                            \
       (2 * KW_ATTENTION_DERIVE_KEYS(d) + 2 * KW_ATTENTION_DERIVE_STAGES * KW_ATTENTION_DERIVE_QUERIES(d)) +      \
   KW_ATTENTION_DERIVE_STAGES * KW_ATTENTION_DERIVE_NUMBERS(d) +                                                  \
   (3 - KW_ATTENTION_DERIVE_APART(d)) * KW_ATTENTION_DERIVE_QUERIES(d) * KW_ATTENTION_DERIVE_KEYS(d) * 2 + 1024 + \
   128 + KW_ATTENTION_DERIVE_APART(d) * KW_ATTENTION_DERIVE_SUMS(d))

#endif
