// SPDX-License-Identifier: MIT
// Squared ReLU of one tensor times another, and its derivatives, on the CPU.
#include "cpu/pages.h"
#include "cpu/pool.h"
#include "cpu/simd.h"
#include "ops/ternary/host/ternary.h"

namespace kw::cpu {

KW_CPU_RANGE(relu2_gated_units)

constexpr int64_t kRelu2Unit = 1024;  // elements of a row that threads are given at a time

namespace KW_ISA {
namespace {

template <class T>
struct Run {
  const Relu2Gated& a;

  static const T* at(const void* data, int64_t stride, int64_t row) {
    return static_cast<const T*>(data) + row * stride;
  }

  template <class Load, class Store>
  void vectors(int64_t row, int64_t i, Load read, Store write) const {
    const Vec gate = read(at(a.gate, a.gate_stride, row) + i), up = read(at(a.up, a.up_stride, row) + i);
    const Vec positive = within(gate, 0.0f, __builtin_inff());
    T* out = const_cast<T*>(at(a.out, a.out_stride, row)) + i;
    if (!a.backward) return write(out, mul(mul(positive, positive), up));
    const Vec dy = read(at(a.dy, a.dy_stride, row) + i);
    write(out, mul(mul(all(2.0f), positive), mul(dy, up)));
    write(const_cast<T*>(at(a.up_out, a.up_out_stride, row)) + i, mul(dy, mul(positive, positive)));
  }

  void part(int64_t row, int64_t first, int64_t last) const {
    int64_t i = first;
    for (; i + kLanes <= last; i += kLanes) {
      vectors(row, i, [](const T* p) { return load(p); }, [](T* p, Vec v) { store(p, v); });
    }
    const int64_t left = last - i;
    if (left > 0)
      vectors(
          row, i, [left](const T* p) { return load_part(p, left); }, [left](T* p, Vec v) { store_part(p, v, left); });
  }

  void units(int64_t begin, int64_t end) const {
    const int64_t each = (a.cols + kRelu2Unit - 1) / kRelu2Unit;
    for (; begin < end; ++begin) {
      const int64_t first = begin % each * kRelu2Unit, last = first + kRelu2Unit;
      part(begin / each, first, last < a.cols ? last : a.cols);
    }
  }
};

}  // namespace

void relu2_gated_units(const void* context, int64_t begin, int64_t end) {
  const auto& a = *static_cast<const Relu2Gated*>(context);
  if (a.dtype == KW_FLOAT32) return Run<float>{a}.units(begin, end);
  if (a.dtype == KW_FLOAT16) return Run<Half>{a}.units(begin, end);
  return Run<BFloat16>{a}.units(begin, end);
}

}  // namespace KW_ISA

#if KW_CPU_BASELINE
kw_status relu2_gated(const Relu2Gated& args) {
  constexpr int64_t kLeast = 32;  // units that are worth another thread
  const int64_t size = args.dtype == KW_FLOAT32 ? 4 : 2;
  if (args.out != args.gate && args.out != args.up)
    will_write(args.out, args.rows, args.out_stride, args.cols * size, size);
  const int64_t each = (args.cols + kRelu2Unit - 1) / kRelu2Unit,
                least = args.cols < kRelu2Unit ? kLeast * kRelu2Unit / args.cols : kLeast;
  parallel_for(args.rows * each, least, picked_relu2_gated_units(), &args);
  return KW_OK;
}
#endif

}  // namespace kw::cpu
