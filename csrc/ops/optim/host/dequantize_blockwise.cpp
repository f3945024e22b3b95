// SPDX-License-Identifier: MIT
// kw_dequantize_blockwise: checks its arguments, then runs on the CPU or launches
// csrc/ops/optim/dequantize_blockwise.cu.
#include "ops/optim/api/dequantize_blockwise.h"

#include "ops/optim/geometry.h"
#include "ops/optim/host/launch.h"

namespace kw {
namespace {

using namespace blockwise;

Module module{"dequantize_blockwise"};
Kernel kernels[3] = {
    {"dequantize_blockwise_float32"}, {"dequantize_blockwise_float16"}, {"dequantize_blockwise_bfloat16"}};

kw_status run_on_device(int32_t device, void* stream, const Blockwise& a) {
  Context context;
  KW_TRY(module_context(module, device, &context));
  const KwDequantizeBlockwiseParams p{bytes_of(a.wide), bytes_of(a.codes),          bytes_of(a.absmax), bytes_of(a.map),
                                      a.count,          __builtin_ctz(a.blocksize), aligned(a)};
  Launch how{
      grid_of(a.count, a.dtype, kBlockwiseSlots * kBlockwiseThreads, *context.device, kDequantizeBlockwiseBlocks),
      kBlockwiseThreads};
  how.overlap = true;
  return launch(context, kernels[a.dtype], how, stream, &p, sizeof p);
}

}  // namespace
}  // namespace kw

KW_API kw_status kw_dequantize_blockwise(int32_t device, void* stream, void* y, const uint8_t* codes,
                                         const float* absmax, const float* map, int64_t count, int32_t blocksize,
                                         int32_t dtype) {
  const kw::Blockwise args{y, const_cast<uint8_t*>(codes), const_cast<float*>(absmax), map, count, blocksize, dtype};
  KW_TRY(kw::blockwise::check("kw_dequantize_blockwise", "y", device, args));
  if (count == 0) return KW_OK;
  return device == KW_CPU ? kw::cpu::dequantize_blockwise(args) : kw::run_on_device(device, stream, args);
}
