// SPDX-License-Identifier: MIT
// Rope of q and k: threads share the rows of all sequences, and of each row turn all heads by the same angles.
#include "ops/attention/cpu/rope.h"

#include "core/sizes.h"
#include "cpu/pages.h"
#include "cpu/pool.h"
#include "ops/attention/host/rope.h"

namespace kw::cpu {

KW_CPU_RANGE(rope_rows)

namespace KW_ISA {
namespace {

// As the kernels do: a row that the tables do not have is the nearest one that they have.
inline int64_t position_of(const Rope& a, int64_t batch, int64_t row) {
  int64_t position = row;
  if (a.positions != nullptr)
    position = a.positions[batch * a.positions_batch + row * a.positions_row] + (a.adds_row ? row : 0);
  return position < 0 ? 0 : position < a.max_positions ? position : a.max_positions - 1;
}

// `pairs` angles of a row from `first` on, times a factor.
template <class W>
void read_angles(const Rope& a, const RopeTable& table, int64_t batch, int64_t position, int64_t first, int64_t pairs,
                 float factor, float* to) {
  const W* const from = static_cast<const W*>(table.data) + batch * table.batch + position * table.row;
  if (a.step == 1) return load_row(from + first, pairs, factor, to);
  float both[2 * kAngles];
  load_row(from + 2 * first, 2 * pairs, factor, both);
  for (int64_t i = 0; i < pairs; ++i) to[i] = both[2 * i];
}

template <class T>
struct Heads {
  const HeadTensor &from, &to;
  int64_t count, batch, row;

  const T* in(int64_t head) const { return at(from, head); }
  T* out(int64_t head) const { return at(to, head); }

 private:
  T* at(const HeadTensor& t, int64_t head) const {
    return static_cast<T*>(t.data) + batch * t.batch + head * t.head + row * t.row;
  }
};

template <class T>
void turn_heads(const Rope& a, const Heads<T>& heads, const float* cos, const float* sin, int64_t first,
                int64_t pairs) {
  const int64_t turning = 2 * a.pairs;
  for (int64_t i = 0; i < heads.count; ++i) {
    const T* const in = heads.in(i);
    T* const out = heads.out(i);
    turn_row(in, out, cos, sin, first, pairs, a.pairs, a.interleaved);
    if (first == 0 && in != out && a.d > turning)
      memcpy(out + turning, in + turning, static_cast<size_t>(a.d - turning) * sizeof(T));
  }
}

template <class T, class W>
void run(const Rope& a, int64_t begin, int64_t end) {
  float cos[kAngles], sin[kAngles];
  for (int64_t i = begin; i < end; ++i) {
    const int64_t batch = i / a.rows, row = i % a.rows, position = position_of(a, batch, row);
    for (int64_t first = 0; first < a.pairs; first += kAngles) {
      const int64_t pairs = a.pairs - first < kAngles ? a.pairs - first : kAngles;
      read_angles<W>(a, a.cos, batch, position, first, pairs, 1.0f, cos);
      read_angles<W>(a, a.sin, batch, position, first, pairs, a.inverse ? -1.0f : 1.0f, sin);
      turn_heads<T>(a, {a.q, a.q_out, a.q_heads, batch, row}, cos, sin, first, pairs);
      turn_heads<T>(a, {a.k, a.k_out, a.k_heads, batch, row}, cos, sin, first, pairs);
    }
  }
}

template <class T>
void run_typed(const Rope& a, int64_t begin, int64_t end) {
  return a.table_dtype == KW_FLOAT32 ? run<T, float>(a, begin, end) : run<T, T>(a, begin, end);
}

}  // namespace

void rope_rows(const void* context, int64_t begin, int64_t end) {
  const Rope& a = *static_cast<const Rope*>(context);
  if (a.dtype == KW_FLOAT32) return run<float, float>(a, begin, end);
  if (a.dtype == KW_FLOAT16) return run_typed<Half>(a, begin, end);
  return run_typed<BFloat16>(a, begin, end);
}

}  // namespace KW_ISA

#if KW_CPU_BASELINE
// A thread that has less to do than so many elements is done before another wakes up.
constexpr int64_t kGrain = 16384;

// Where results have no gaps, whatever the order of their dimensions.
static void will_write_heads(const Rope& a, const HeadTensor& t, int64_t heads) {
  const int64_t count = a.batch * heads * a.rows * a.d;
  const int64_t last = (a.batch - 1) * t.batch + (heads - 1) * t.head + (a.rows - 1) * t.row + a.d;
  const bool ahead = t.batch > 0 && t.head > 0 && t.row > 0;
  if (heads > 0 && ahead && last == count) will_write(t.data, count * size_of(a.dtype));
}

kw_status rope(const Rope& args) {
  if (!in_place(args)) {
    will_write_heads(args, args.q_out, args.q_heads);
    will_write_heads(args, args.k_out, args.k_heads);
  }
  const int64_t elements = (args.q_heads + args.k_heads) * args.d;
  parallel_for(args.batch * args.rows, 1 + kGrain / elements, picked_rope_rows(), &args);
  return KW_OK;
}
#endif

}  // namespace kw::cpu
