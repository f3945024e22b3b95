// SPDX-License-Identifier: MIT
// Rows less their mean, divided by their standard deviation.
#include "ops/norm/cpu/backward.h"
#include "ops/norm/cpu/forward.h"

namespace kw::cpu {

KW_CPU_RANGE(layer_norm_rows)
KW_CPU_RANGE(layer_norm_backward_chunks)
KW_CPU_RANGE(layer_norm_backward_columns)

namespace KW_ISA {
namespace {

struct LayerUnit {
  static constexpr bool kBias = true;
  Vec minus_estimate, rstd, shift;

  template <class In>
  static LayerUnit of(const In& in, const Norm& args, int64_t row) {
    const Moments m = moments(in, args.cols);
    const double scale = rstd_of(m.variance, args.eps);
    const auto rstd = static_cast<float>(scale);
    if (args.mean) args.mean[row] = static_cast<float>(m.mean());
    if (args.rstd) args.rstd[row] = rstd;
    return {all(-m.estimate), all(rstd), all(static_cast<float>(-m.offset * scale))};
  }

  Vec at(Vec h) const { return mul_add(add(h, minus_estimate), rstd, shift); }
};

}  // namespace

void layer_norm_rows(const void* context, int64_t begin, int64_t end) {
  forward_rows<LayerUnit>(*static_cast<const Norm*>(context), begin, end);
}

void layer_norm_backward_chunks(const void* context, int64_t begin, int64_t end) {
  backward_chunks<true>(*static_cast<const NormBackward*>(context), begin, end);
}

void layer_norm_backward_columns(const void* context, int64_t begin, int64_t end) {
  backward_columns(*static_cast<const NormBackward*>(context), begin, end);
}

}  // namespace KW_ISA

#if KW_CPU_BASELINE
kw_status layer_norm(const Norm& args) { return run_norm(args, picked_layer_norm_rows()); }

kw_status layer_norm_backward(const NormBackward& args) {
  return run_norm_backward(args, picked_layer_norm_backward_chunks(), picked_layer_norm_backward_columns());
}
#endif

}  // namespace kw::cpu
