// SPDX-License-Identifier: MIT
// How the backward pass of a norm cuts its rows, so that derivatives of weights come out the same for any number of
// threads: each chunk of rows adds up its own share, and the shares are the leaves of one binary tree, whoever adds
// them.
//
// A thread adds what it finds of its own as it goes: shares of another core's cache cost more than a row to fetch, and
// the more of them a call leaves behind, the more its next one must take back.
#pragma once

#include "ops/norm/host/norm.h"

namespace kw::cpu {

// Whole rows, the same for each chunk but the last.
struct Chunks {
  int64_t rows_each, count;
};

constexpr int64_t kMostChunks = 64;

inline Chunks chunks_of(int64_t rows) {
  // So few that the shares are little beside the rows, so many that every thread finds work: to add two shares takes
  // about as long as a row.
  constexpr int64_t kFewestRows = 8, kFewestOfMany = 16, kMany = 128, kMost = kMostChunks;
  const int64_t spread = (rows + kMost - 1) / kMost, fewest = rows < kMany ? kFewestRows : kFewestOfMany;
  const int64_t rows_each = spread < fewest ? fewest : spread;
  return {rows_each, (rows + rows_each - 1) / rows_each};
}

// Floats of one sum over a chunk; a chunk has one for dweight and, of a centered norm, one for dbias after it.
inline int64_t share_pitch(int64_t cols) { return (cols + 15) / 16 * 16; }

// What the chunks from one on have been added up to; the first of them keeps it.
struct Node {
  const void* owner;  // the thread that did; nullptr: nobody has yet
  int32_t chunks;     // a power of two, and so far that the next node begins there
  int32_t place;      // of the sums, as share_of() takes it
};

inline float* share_of(const NormBackward& args, int64_t chunk) {
  return static_cast<float*>(args.workspace) + chunk * share_pitch(args.cols) * (args.centered ? 2 : 1);
}

inline Node* nodes_of(const NormBackward& args) {
  return reinterpret_cast<Node*>(share_of(args, chunks_of(args.rows).count));
}

// Something that no other thread of this process calls by the same name.
const void* this_thread();

using RangeBody = void (*)(const void* context, int64_t begin, int64_t end);

// What `columns` below counts: columns from one multiple of this to the next, and so whole pairs of vectors.
constexpr int64_t kColumnBlock = 64;

// Both passes over a norm's backward: `chunks` takes chunk numbers, `columns` adds the shares of blocks of columns.
// Without derivatives of weights, only the first.
kw_status run_norm_backward(const NormBackward& args, RangeBody chunks, RangeBody columns);

}  // namespace kw::cpu
