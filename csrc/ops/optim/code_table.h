/* SPDX-License-Identifier: MIT */
/*
 * The code of a scaled value, by one look-up. Host and device build the same table of a map.
 *
 * A code is how many of 255 bounds the value exceeds: the middles between neighbours in the map, where a value on one
 * belongs to the even code, as bitsandbytes' search ends on an even code and leaves it only for what is nearer.
 *
 * A bucket is the values of one sign, one exponent and one set of leading mantissa bits: as many of these that each
 * bucket has at most one bound of the maps in use. Its entry has the code of the bucket's smallest size, and from which
 * mantissa on the code is the next one. Where a bucket has more bounds its entry says so, and they are searched.
 */
#ifndef KW_OPTIM_CODE_TABLE_H
#define KW_OPTIM_CODE_TABLE_H

#ifdef __CUDACC__
#define KW_SHARED_FUNCTION __host__ __device__ __forceinline__
#else
#define KW_SHARED_FUNCTION __attribute__((always_inline)) inline
#endif

namespace kw {

constexpr unsigned kCodeOctaves = 25;                          /* from 2^-24 to 2; what is smaller is one bucket */
constexpr unsigned kCodeBuckets = 2 * (kCodeOctaves * 64 + 1); /* of two signs; or of one, with a bit more */
constexpr unsigned kCodeFirst = 127 - 24;                      /* the first octave's exponent */
constexpr unsigned kCodeSearch = 1u << 23, kCodeThreshold = kCodeSearch - 1;

/* Of a map of both signs a bucket has 6 bits of mantissa, of another 7. */
struct CodeShape {
  unsigned shift, size; /* bits below those; buckets of one sign */
  bool both;
};

KW_SHARED_FUNCTION CodeShape code_shape(bool both) {
  const unsigned bits = both ? 6 : 7;
  return {23 - bits, (kCodeOctaves << bits) + 1, both};
}

/* The bits of a float, so that they compare as the floats do. */
KW_SHARED_FUNCTION unsigned code_order(unsigned bits) { return bits & 0x80000000u ? ~bits : bits | 0x80000000u; }

/* A bound's bits, from those of the middle between entry `number` and the next, which are `alike` or not. */
KW_SHARED_FUNCTION unsigned code_bound(unsigned middle, unsigned number, bool alike) {
  if (middle == 0x80000000u) middle = 0;
  if (number % 2 == 0 || alike) return middle;
  if (middle == 0) return 0x80000001u;
  return middle & 0x80000000u ? middle + 1 : middle - 1;
}

/* How many of the bounds, of which there is a 256th that is infinite, lie below what has these bits. */
KW_SHARED_FUNCTION unsigned code_searched(const unsigned* bounds, unsigned bits) {
  const unsigned of = code_order(bits);
  unsigned code = 0;
#if defined(__CUDACC__) || defined(__clang__) /* GCC knows no such pragma */
#pragma unroll 1
#endif
  for (unsigned step = 128; step > 0; step /= 2) {
    if (of > code_order(bounds[code + step - 1])) code += step;
  }
  return code;
}

/* Where a bucket begins: the bits of its smallest size. */
KW_SHARED_FUNCTION unsigned code_edge(const CodeShape& shape, unsigned bucket) {
  return bucket == 0 ? 0 : (bucket - 1 + (kCodeFirst << (23 - shape.shift))) << shape.shift;
}

/* An entry, given the code of the bucket's smallest size. */
KW_SHARED_FUNCTION unsigned code_entry(const CodeShape& shape, const unsigned* bounds, unsigned number, unsigned code) {
  const bool minus = number >= shape.size;
  const unsigned bucket = minus ? number - shape.size : number, sign = minus ? 0x80000000u : 0;
  const unsigned from = code_edge(shape, bucket) | sign, to = code_edge(shape, bucket + 1) | sign;
  const unsigned never = 1u << shape.shift;
  unsigned found = 0, first = 0; /* bounds within, and the one nearest to 0 */
  if (minus) {
    for (; found < 2 && code > found && code_order(bounds[code - 1 - found]) > code_order(to); ++found) continue;
    first = code > 0 ? bounds[code - 1] : 0;
  } else {
    for (; found < 2 && code + found < 255 && code_order(bounds[code + found]) < code_order(to); ++found) continue;
    first = bounds[code] + 1; /* from the next number on */
  }
  if (found == 0) return code << 24 | never;
  if (found == 2 || bucket == 0) return kCodeSearch;
  const unsigned threshold = (first & 0x7fffffffu) - (from & 0x7fffffffu);
  return code << 24 | (threshold < never ? threshold : never);
}

KW_SHARED_FUNCTION unsigned code_entry(const CodeShape& shape, const unsigned* bounds, unsigned number) {
  const bool minus = number >= shape.size;
  const unsigned from = code_edge(shape, minus ? number - shape.size : number) | (minus ? 0x80000000u : 0);
  return code_entry(shape, bounds, number, code_searched(bounds, from));
}

/* The number of the entry of what has these bits. */
KW_SHARED_FUNCTION unsigned code_bucket(const CodeShape& shape, unsigned bits) {
  const unsigned before = (kCodeFirst << (23 - shape.shift)) - 1, of = (bits & 0x7fffffffu) >> shape.shift;
  unsigned bucket = of < before ? 0 : of - before;
  bucket = bucket < shape.size ? bucket : shape.size - 1;
  return bits >> 31 && shape.both ? shape.size + bucket : bucket;
}

/* Its code, by that entry: 0 for NaN, and where the bounds must be searched. */
KW_SHARED_FUNCTION unsigned code_in(const CodeShape& shape, unsigned entry, unsigned bits) {
  const unsigned size = bits & 0x7fffffffu, minus = bits >> 31;
  const unsigned more = (size & ((1u << shape.shift) - 1)) >= (entry & kCodeThreshold) ? 1 : 0;
  const unsigned code = (entry >> 24) + (minus ? 0 - more : more);
  return size > 0x7f800000u || (minus && !shape.both) || entry & kCodeSearch ? 0 : code;
}

} /* namespace kw */

#endif
