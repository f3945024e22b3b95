// SPDX-License-Identifier: MIT
// kw_quantize_blockwise: checks its arguments, then runs on the CPU or launches csrc/ops/optim/quantize_blockwise.cu.
#include "ops/optim/api/quantize_blockwise.h"

#include "ops/optim/geometry.h"
#include "ops/optim/host/launch.h"

namespace kw {
namespace {

using namespace blockwise;

Module module{"quantize_blockwise"};
Kernel kernels[3] = {{"quantize_blockwise_float32"}, {"quantize_blockwise_float16"}, {"quantize_blockwise_bfloat16"}};

kw_status run_on_device(int32_t device, void* stream, const Blockwise& a) {
  Context context;
  KW_TRY(module_context(module, device, &context));
  const KwQuantizeBlockwiseParams p{bytes_of(a.codes), bytes_of(a.absmax),         bytes_of(a.wide), bytes_of(a.map),
                                    a.count,           __builtin_ctz(a.blocksize), aligned(a)};
  Launch how{grid_of(a.count, a.dtype, kBlockwiseSlots * kBlockwiseThreads, *context.device, kQuantizeBlockwiseBlocks),
             kBlockwiseThreads};
  how.overlap = true;
  return launch(context, kernels[a.dtype], how, stream, &p, sizeof p);
}

}  // namespace
}  // namespace kw

KW_API kw_status kw_quantize_blockwise(int32_t device, void* stream, uint8_t* codes, float* absmax, const void* x,
                                       const float* map, int64_t count, int32_t blocksize, int32_t dtype) {
  const kw::Blockwise args{const_cast<void*>(x), codes, absmax, map, count, blocksize, dtype};
  KW_TRY(kw::blockwise::check("kw_quantize_blockwise", "x", device, args));
  if (count == 0) return KW_OK;
  return device == KW_CPU ? kw::cpu::quantize_blockwise(args) : kw::run_on_device(device, stream, args);
}
