// SPDX-License-Identifier: MIT
// One product after the other, each of an expert that has rows of x, by the threads that a product takes.
#include "ops/four_bit/host/matmul_4bit_grouped.h"

#include <string.h>

#include "core/error.h"
#include "core/sizes.h"
#include "cpu/isa.h"

#if KW_CPU_BASELINE
namespace kw::cpu {
namespace {

// Rows `from` to `to` of x, with the weight of this expert.
Matmul4bit part_of(const Grouped4bit& a, int64_t expert, int64_t from, int64_t to) {
  Matmul4bit part = a.all;
  const int64_t size = size_of(part.dtype), weights = expert * part.n * part.k, blocks = weights / part.blocksize;
  part.x = static_cast<const char*>(part.x) + from * part.x_stride * size;
  part.y = static_cast<char*>(part.y) + from * part.y_stride * size;
  part.m = to - from;
  part.packed += weights / 2;
  if (part.scales.absmax != nullptr) {
    part.scales.absmax += blocks;
  } else {
    part.scales.codes += blocks;
    part.scales.absmax2 += blocks / kScalesABlock;
  }
  return part;
}

}  // namespace

kw_status matmul_4bit_grouped(const Grouped4bit& a) {
  const int64_t m = a.all.m, size = size_of(a.all.dtype);
  int64_t from = 0;
  for (int64_t expert = 0; expert < a.experts && from < m; ++expert) {
    const int64_t end = a.ends[expert], to = end < from ? from : end < m ? end : m;
    if (to > from) KW_TRY(product_4bit(part_of(a, expert, from, to)));
    from = to;
  }
  for (; from < m; ++from)
    memset(static_cast<char*>(a.all.y) + from * a.all.y_stride * size, 0, static_cast<size_t>(a.all.n * size));
  return KW_OK;
}

}  // namespace kw::cpu
#endif
