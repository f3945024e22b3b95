/* SPDX-License-Identifier: MIT */
/* Tiles of attention of few queries, for host and device. */
#ifndef KW_ATTENTION_DECODE_GEOMETRY_H
#define KW_ATTENTION_DECODE_GEOMETRY_H

#include "ops/attention/geometry.h"

/* Rows, queries of heads that share a head of keys, that a block has; keys that a warp takes in a step; steps that are
   on their way or looked at. */
enum { KW_DECODE_ROWS = 16, KW_DECODE_KEYS = 16, KW_DECODE_STAGES = 3 };

/* Warps of a block, by the elements of a row: so that stages of all fit into 96 KiB. */
#define KW_DECODE_WARPS(d) ((d) > KW_ATTENTION_MIDDLE ? 2 : 4)

/* Shared memory: keys and values of all stages and warps. Before it holds queries, after it sums. */
#define KW_DECODE_SHARED(d) (KW_DECODE_WARPS(d) * KW_DECODE_STAGES * KW_DECODE_KEYS * (d) * 4)

/* Threads of a block that adds up what splits found. */
enum { KW_DECODE_MERGE_THREADS = 128 };

#endif
