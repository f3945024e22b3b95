/* SPDX-License-Identifier: MIT */
/* Rows and columns of the tiles of products that any GPU computes, and the threads of a block, which has one. */
#ifndef KW_DEVICE_ANY_TILE_H
#define KW_DEVICE_ANY_TILE_H

enum { KW_ANY_TILE = 64, KW_ANY_THREADS = 256 };

#endif
