// SPDX-License-Identifier: MIT
// Rows divided by the root of the mean of their squares.
#include "ops/norm/cpu/backward.h"
#include "ops/norm/cpu/forward.h"

namespace kw::cpu {

KW_CPU_RANGE(rms_norm_rows)
KW_CPU_RANGE(rms_norm_backward_chunks)
KW_CPU_RANGE(rms_norm_backward_columns)

namespace KW_ISA {
namespace {

struct SquareSum {
  Vec s = zero();

  void take(Vec h) { s = mul_add(h, h, s); }
  void take_part(Vec h, int64_t) { take(h); }
  void join(const SquareSum& other) { s = add(s, other.s); }
  void add_to(double* totals) const { add_total(totals, s); }
};

struct RmsUnit {
  static constexpr bool kBias = false;
  Vec rstd;

  template <class In>
  static RmsUnit of(const In& in, const Norm& args, int64_t row) {
    double squares = 0;
    sum_row(in.first(), SquareSum{}, args.cols, &squares);
    const auto rstd = static_cast<float>(rstd_of(squares / static_cast<double>(args.cols), args.eps));
    if (args.rstd) args.rstd[row] = rstd;
    return {all(rstd)};
  }

  Vec at(Vec h) const { return mul(h, rstd); }
};

}  // namespace

void rms_norm_rows(const void* context, int64_t begin, int64_t end) {
  forward_rows<RmsUnit>(*static_cast<const Norm*>(context), begin, end);
}

void rms_norm_backward_chunks(const void* context, int64_t begin, int64_t end) {
  backward_chunks<false>(*static_cast<const NormBackward*>(context), begin, end);
}

void rms_norm_backward_columns(const void* context, int64_t begin, int64_t end) {
  backward_columns(*static_cast<const NormBackward*>(context), begin, end);
}

}  // namespace KW_ISA

#if KW_CPU_BASELINE
kw_status rms_norm(const Norm& args) { return run_norm(args, picked_rms_norm_rows()); }

kw_status rms_norm_backward(const NormBackward& args) {
  return run_norm_backward(args, picked_rms_norm_backward_chunks(), picked_rms_norm_backward_columns());
}
#endif

}  // namespace kw::cpu
