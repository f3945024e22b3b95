// SPDX-License-Identifier: MIT
#include "ops/norm/cpu/chunks.h"

#include "cpu/pages.h"
#include "cpu/pool.h"

namespace kw::cpu {

const void* this_thread() {
  static thread_local char here;
  return &here;
}

int64_t norm_backward_workspace(int64_t rows, int64_t cols, bool centered) {
  const int64_t share = share_pitch(cols) * (centered ? 2 : 1) * static_cast<int64_t>(sizeof(float));
  return chunks_of(rows).count * (share + static_cast<int64_t>(sizeof(Node)));
}

kw_status run_norm_backward(const NormBackward& args, RangeBody chunks, RangeBody columns) {
  // A part of fewer elements takes this thread less than the 5 to 10 us in which another wakes up.
  constexpr int64_t kElements = 32768;
  const int64_t size = size_of(args.dtype);
  will_write(args.dx, args.rows, args.dx_stride, args.cols * size, size);
  const Chunks cut = chunks_of(args.rows);
  const bool wanted = args.dweight != nullptr || args.dbias != nullptr;
  for (int64_t i = 0; wanted && i < cut.count; ++i) nodes_of(args)[i].owner = nullptr;
  // One part for each thread: between two parts nothing goes along with a first pass and a last second one.
  const int64_t fewest = 1 + kElements / (cut.rows_each * args.cols), even = cut.count / kw_num_threads();
  parallel_for(cut.count, even < fewest ? fewest : even, chunks, &args);
  if (wanted) {
    const int64_t sums = args.centered ? 2 : 1;
    const int64_t blocks = (args.cols + kColumnBlock - 1) / kColumnBlock;
    parallel_for(blocks, 1 + 2 * kElements / ((cut.count + 1) * sums * kColumnBlock), columns, &args);
  }
  return KW_OK;
}

}  // namespace kw::cpu
