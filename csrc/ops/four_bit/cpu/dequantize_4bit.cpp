// SPDX-License-Identifier: MIT
// Each code's value times its block's scale.
#include "cpu/pages.h"
#include "cpu/pool.h"
#include "ops/four_bit/cpu/four_bit.h"

namespace kw::cpu {

KW_CPU_RANGE(dequantize_4bit_pieces)

namespace KW_ISA {
namespace {

template <class T>
void run(const Dequantize4bit& a, int64_t first, int64_t stop) {
  decode_elements(a.packed, a.scales, a.blocksize, a.quant_type, first, stop, static_cast<T*>(a.y) + first);
}

}  // namespace

void dequantize_4bit_pieces(const void* context, int64_t begin, int64_t end) {
  const Dequantize4bit& a = *static_cast<const Dequantize4bit*>(context);
  const int64_t first = begin * kPiece, stop = end * kPiece < a.count ? end * kPiece : a.count;
  if (a.dtype == KW_FLOAT32) return run<float>(a, first, stop);
  if (a.dtype == KW_FLOAT16) return run<Half>(a, first, stop);
  return run<BFloat16>(a, first, stop);
}

}  // namespace KW_ISA

#if KW_CPU_BASELINE
kw_status dequantize_4bit(const Dequantize4bit& args) {
  // So many pieces take this thread about as long as another takes to wake up.
  constexpr int64_t kGrain = 8;
  will_write(args.y, args.count * (args.dtype == KW_FLOAT32 ? 4 : 2));
  parallel_for(pieces(args.count), kGrain, picked_dequantize_4bit_pieces(), &args);
  return KW_OK;
}
#endif

}  // namespace kw::cpu
