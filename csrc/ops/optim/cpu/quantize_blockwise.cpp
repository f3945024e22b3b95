// SPDX-License-Identifier: MIT
// Blocks of 8-bit codes. A scaled value is element * (1 / scale), as on a GPU.
#include "cpu/pages.h"
#include "cpu/pool.h"
#include "ops/optim/cpu/codes.h"
#include "ops/optim/host/blockwise.h"

namespace kw::cpu {

KW_CPU_RANGE(quantize_blockwise_blocks)

struct QuantizeJob {
  const Blockwise& args;
  const CodeTable& table;
};

namespace KW_ISA {
namespace {

template <class T>
void run(const QuantizeJob& job, int64_t begin, int64_t end) {
  const Blockwise& a = job.args;
  float wide[blockwise::kMostBlock];
  for (; begin < end; ++begin) {
    const int64_t first = begin * a.blocksize, left = a.count - first;
    const int64_t count = left < a.blocksize ? left : a.blocksize;
    widen(static_cast<const T*>(a.wide) + first, wide, count);
    a.absmax[begin] = quantize_block(job.table, wide, count, a.codes + first);
  }
}

}  // namespace

void quantize_blockwise_blocks(const void* context, int64_t begin, int64_t end) {
  const auto& job = *static_cast<const QuantizeJob*>(context);
  if (job.args.dtype == KW_FLOAT32) return run<float>(job, begin, end);
  if (job.args.dtype == KW_FLOAT16) return run<Half>(job, begin, end);
  return run<BFloat16>(job, begin, end);
}

}  // namespace KW_ISA

#if KW_CPU_BASELINE
kw_status quantize_blockwise(const Blockwise& args) {
  CodeTable table;
  KW_ISA::fill_table(args.map, args.count, &table);
  const QuantizeJob job{args, table};
  will_write(args.codes, args.count);
  const int64_t blocks = (args.count + args.blocksize - 1) / args.blocksize;
  parallel_for(blocks, 8192 / args.blocksize, picked_quantize_blockwise_blocks(), &job);
  return KW_OK;
}
#endif

}  // namespace kw::cpu
