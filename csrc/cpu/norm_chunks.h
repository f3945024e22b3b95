// SPDX-License-Identifier: MIT
// How the backward pass of a norm cuts its rows, so that derivatives of weights come out the same for any number of
// threads: each chunk of rows adds up its own share, and the shares are added in their order.
#pragma once

#include "../host/ops/norm.h"

namespace kw::cpu {

// Whole rows, the same for each chunk but the last.
struct Chunks {
  int64_t rows_each, count;
};

inline Chunks chunks_of(int64_t rows) {
  // So few that the shares are little beside the rows, so many that every thread finds work.
  constexpr int64_t kFewestRows = 8, kMost = 64;
  const int64_t spread = (rows + kMost - 1) / kMost;
  const int64_t rows_each = spread < kFewestRows ? kFewestRows : spread;
  return {rows_each, (rows + rows_each - 1) / rows_each};
}

// Floats of one sum over a chunk; a chunk has one for dweight and, of a centered norm, one for dbias after it.
inline int64_t share_pitch(int64_t cols) { return (cols + 15) / 16 * 16; }

inline float* share_of(const NormBackward& args, int64_t chunk) {
  return static_cast<float*>(args.workspace) + chunk * share_pitch(args.cols) * (args.centered ? 2 : 1);
}

using RangeBody = void (*)(const void* context, int64_t begin, int64_t end);

// Both passes over a norm's backward: `chunks` takes chunk numbers, `columns` adds the shares of these columns.
// Without derivatives of weights, only the first.
kw_status run_norm_backward(const NormBackward& args, RangeBody chunks, RangeBody columns);

}  // namespace kw::cpu
