// SPDX-License-Identifier: MIT
// The values of 8-bit codes, block by block.
#include "cpu/pages.h"
#include "cpu/pool.h"
#include "ops/optim/cpu/codes.h"
#include "ops/optim/host/blockwise.h"

namespace kw::cpu {

KW_CPU_RANGE(dequantize_blockwise_blocks)

namespace KW_ISA {
namespace {

template <class T>
void run(const Blockwise& a, int64_t begin, int64_t end) {
  float wide[blockwise::kMostBlock];
  for (; begin < end; ++begin) {
    const int64_t first = begin * a.blocksize, left = a.count - first;
    const int64_t count = left < a.blocksize ? left : a.blocksize;
    dequantize_block(a.map, a.codes + first, a.absmax[begin], count, wide);
    narrow(wide, static_cast<T*>(a.wide) + first, count);
  }
}

}  // namespace

void dequantize_blockwise_blocks(const void* context, int64_t begin, int64_t end) {
  const auto& args = *static_cast<const Blockwise*>(context);
  if (args.dtype == KW_FLOAT32) return run<float>(args, begin, end);
  if (args.dtype == KW_FLOAT16) return run<Half>(args, begin, end);
  return run<BFloat16>(args, begin, end);
}

}  // namespace KW_ISA

#if KW_CPU_BASELINE
kw_status dequantize_blockwise(const Blockwise& args) {
  will_write(args.wide, args.count * (args.dtype == KW_FLOAT32 ? 4 : 2));
  const int64_t blocks = (args.count + args.blocksize - 1) / args.blocksize;
  parallel_for(blocks, 16384 / args.blocksize, picked_dequantize_blockwise_blocks(), &args);
  return KW_OK;
}
#endif

}  // namespace kw::cpu
