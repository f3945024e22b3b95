/* SPDX-License-Identifier: MIT */
/* What the stand-in for NVIDIA's driver takes as the description of a tensor: the rules of the real one. */
#ifndef STANDIN_TENSOR_MAP_H
#define STANDIN_TENSOR_MAP_H

#include <stdint.h>
#include <stdio.h>

static unsigned element_bytes(int type) {
  if (type == 8) return 8;
  if (type == 3 || type == 7) return 4;
  return type == 6 || type == 9 ? 2 : 1;
}

// To `text`, each dimension as size/box by pitch; 0 where the driver would refuse.
static int tell_dimensions(char* text, size_t room, int type, uint32_t rank, const uint64_t* sizes,
                           const uint64_t* pitches, const uint32_t* box, const uint32_t* every, int swizzle) {
  const unsigned row = box[0] * element_bytes(type);
  size_t at = 0;
  if (rank < 2 || rank > 5 || row % 16 != 0 || (swizzle && row > 16u << swizzle)) return 0;
  for (uint32_t i = 0; i < rank && at < room; ++i) {
    const uint64_t pitch = i ? pitches[i - 1] : element_bytes(type);
    if (!sizes[i] || !box[i] || box[i] > 256 || every[i] != 1) return 0;
    if (i && (pitch % 16 != 0 || pitch >> 40 != 0)) return 0;
    at += (size_t)snprintf(text + at, room - at, " %llu/%u by %llu", (unsigned long long)sizes[i], box[i],
                           (unsigned long long)pitch);
  }
  return 1;
}

#endif
