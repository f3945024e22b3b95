// SPDX-License-Identifier: MIT
#include "../norm_chunks.h"

#include "../pages.h"
#include "../pool.h"

namespace kw::cpu {

int64_t norm_backward_workspace(int64_t rows, int64_t cols, bool centered) {
  return chunks_of(rows).count * share_pitch(cols) * (centered ? 2 : 1) * static_cast<int64_t>(sizeof(float));
}

kw_status run_norm_backward(const NormBackward& args, RangeBody chunks, RangeBody columns) {
  // A part of fewer elements takes this thread less than the 5 to 10 us in which another wakes up.
  constexpr int64_t kElements = 32768;
  const int64_t size = size_of(args.dtype);
  will_write(args.dx, args.rows, args.dx_stride, args.cols * size, size);
  const Chunks cut = chunks_of(args.rows);
  parallel_for(cut.count, 1 + kElements / (cut.rows_each * args.cols), chunks, &args);
  if (args.dweight != nullptr || args.dbias != nullptr) {
    const int64_t sums = args.centered ? 2 : 1;
    parallel_for(args.cols, 1 + 2 * kElements / ((cut.count + 1) * sums), columns, &args);
  }
  return KW_OK;
}

}  // namespace kw::cpu
