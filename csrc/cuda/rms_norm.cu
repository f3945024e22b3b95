// SPDX-License-Identifier: MIT
// RMS normalisation of rows. In all but the last two kernels a row is read once and then held in registers:
//
//   row      a row is a warp's, a block's or a cluster's, kSlots units of 16 bytes a thread at most
//   shifted  the same for rows that begin off 16 bytes (all tensors alike) or end off them
//   narrow   a row is at most one unit of 16 bytes a lane: lanes of a warp share it and hold units of several rows
//   jagged   the same for rows that begin or end off 16 bytes
//   scalar   the same by elements, for narrow rows that lie anyhow
//   stream   rows that fit in no registers: read twice, the second time from cache
//   trickle  the same by elements, for rows whose tensors lie differently
//
// Which of them runs, and with how many threads, is the launcher's choice (csrc/host/ops/rms_norm.cpp).
#include "element.cuh"
#include "ptx_memory.cuh"
#include "reduce.cuh"
#include "rms_norm_params.h"

namespace kw {

// Of 16 bytes: as float32 they are at most 32 registers, which leaves room for 1024 threads of 64 registers.
constexpr int kSlots = 4;
// Of one element.
constexpr int kScalarSlots = 8;

using Params = KwRmsNormParams;

// Where this thread stands: its row, its first unit in it, the units between one of its own and the next.
struct Place {
  i64 row;
  u32 first;
  u32 step;
};

__device__ __forceinline__ u32 cluster_rank(const Params& p) { return blockIdx.x & ((1u << p.cluster_log2) - 1); }

__device__ __forceinline__ Place place_in_rows(const Params& p) {
  if (p.row_is_a_warp) {
    const i64 row = static_cast<i64>(blockIdx.x) * (blockDim.x / kWarp) + threadIdx.x / kWarp;
    return {row, threadIdx.x % kWarp, kWarp};
  }
  return {blockIdx.x >> p.cluster_log2, cluster_rank(p) * blockDim.x + threadIdx.x, blockDim.x << p.cluster_log2};
}

__device__ __forceinline__ void begin(const Params& p, SumScratch& scratch) {
#ifdef KW_HAS_CLUSTER
  if (p.cluster_log2 > 0) cluster_sum_begin(1u << p.cluster_log2, scratch);
#endif
  allow_next_kernel();
  wait_for_previous_kernel();
}

__device__ __forceinline__ float row_sum(const Params& p, float value, SumScratch& scratch) {
  value = warp_sum(value);
  if (p.row_is_a_warp) return value;
  value = block_sum(value, scratch);
#ifdef KW_HAS_CLUSTER
  if (p.cluster_log2 > 0) value = cluster_sum(value, cluster_rank(p), 1u << p.cluster_log2, scratch);
#endif
  return value;
}

__device__ __forceinline__ float rstd_of(const Params& p, float sum) {
  return rsqrt_approx(fmaf(sum, p.inverse_cols, p.eps));
}

template <int kCount>
__device__ __forceinline__ float squares(const float (&h)[kCount]) {
  float even = 0.0f, odd = 0.0f;
#pragma unroll
  for (int i = 0; i < kCount; ++i) (i % 2 ? odd : even) = fmaf(h[i], h[i], i % 2 ? odd : even);
  return even + odd;
}

// Row `row` of a tensor, from byte `offset` on.
template <class P>
__device__ __forceinline__ P* row_at(P* tensor, i64 row, i64 pitch, u32 offset) {
  return computed_once(tensor + row * pitch + offset);
}

// The weights of the unit of kBytes that begins at `column`. `like_x` is false where that case was dealt with.
template <class T, int kBytes>
__device__ __forceinline__ void load_weight(const Params& p, u32 column, float* weight, bool like_x = true) {
  constexpr int kCount = Unit<T, kBytes>::kCount;
  if (like_x && p.weight_kind == KW_WEIGHT_LIKE_X) {
    Unit<T, kBytes> unit;
    load<kBytes>(p.weight + column * T::kSize, unit.word);
    unit.unpack(weight);
  } else if (T::kSize < 4 && p.weight_kind == KW_WEIGHT_FLOAT32) {
    constexpr int kPiece = kBytes == 16 ? 16 : 4;
#pragma unroll
    for (int i = 0; i < kCount * 4 / kPiece; ++i) {
      Unit<Float32, kPiece> unit;
      load<kPiece>(p.weight + column * 4 + i * kPiece, unit.word);
      unit.unpack(weight + i * kPiece / 4);
    }
  } else {
#pragma unroll
    for (int i = 0; i < kCount; ++i) weight[i] = 1.0f;
  }
}

// The same one by one, for columns that begin anywhere.
template <class T, int kCount>
__device__ __forceinline__ void load_weight_elements(const Params& p, u32 column, float* weight) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) load_weight<T, T::kSize>(p, column + i, weight + i);
}

template <int kCount>
__device__ __forceinline__ void scale(float (&h)[kCount], float rstd, const float (&weight)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) h[i] = h[i] * rstd * weight[i];
}

template <class T, int kBytes, int kCount>
__device__ __forceinline__ void store_unit(char* to, const float (&value)[kCount]) {
  Unit<T, kBytes> unit;
  unit.pack(value);
  store<kBytes>(to, unit.word);
}

// The part of a row that is whole units: where it begins, in elements, and how many they are.
struct Span {
  u32 head;
  u32 units;
};

template <class T, bool kShifted>
__device__ __forceinline__ Span span_of(const Params& p, i64 row) {
  constexpr u32 kCount = 16 / T::kSize;
  const u32 cols = p.cols;
  if constexpr (!kShifted) return {0, cols / kCount};
  const u32 off = -static_cast<u32>(reinterpret_cast<u64>(p.x) + row * p.x_pitch) & 15u;
  const u32 head = off / T::kSize < cols ? off / T::kSize : cols;
  return {head, (cols - head) / kCount};
}

// One element, for the ends of a shifted row: fewer than a unit's before the first unit, one for each thread from 0
// on, and fewer than a unit's after the last, one for each thread from kSplit on.
template <class T, bool kAdd>
struct Edge {
  int column = -1;
  float h[1] = {0.0f};

  static constexpr u32 kSplit = 16 / T::kSize;

  __device__ __forceinline__ void find(u32 thread, const Span& span, u32 cols) {
    const u32 tail = cols - span.head - span.units * kSplit;
    if (thread < span.head) column = thread;
    if (thread >= kSplit && thread - kSplit < tail) column = cols - tail + thread - kSplit;
  }

  __device__ __forceinline__ void read(const Params& p, i64 row) {
    if (column < 0) return;
    const u32 offset = column * T::kSize;
    Unit<T, T::kSize> unit;
    load<T::kSize>(p.x + row * p.x_pitch + offset, unit.word);
    unit.unpack(h);
    if constexpr (kAdd) {
      float r;
      load<T::kSize>(p.residual + row * p.residual_pitch + offset, unit.word);
      unit.unpack(&r);
      h[0] += r;
      store_unit<T, T::kSize>(p.sum + row * p.sum_pitch + offset, h);
    }
  }

  __device__ __forceinline__ void finish(const Params& p, i64 row, float rstd) {
    if (column < 0) return;
    float weight[1];
    load_weight<T, T::kSize>(p, column, weight);
    scale(h, rstd, weight);
    store_unit<T, T::kSize>(p.y + row * p.y_pitch + column * T::kSize, h);
  }
};

template <class T, bool kAdd, bool kShifted>
__device__ __forceinline__ void rms_norm_row(const Params& p) {
  using Vector = Unit<T, 16>;
  constexpr int kCount = Vector::kCount;
  __shared__ __align__(16) SumScratch scratch;

  begin(p, scratch);
  const Place at = place_in_rows(p);
  if (at.row >= p.rows) return;  // whole warps only: rows of blocks and clusters are never past the end
  const Span span = span_of<T, kShifted>(p, at.row);
  const u32 head = span.head, units = span.units;
  Edge<T, kAdd> edge;
  if constexpr (kShifted) {
    edge.find(at.first, span, p.cols);
    edge.read(p, at.row);
  }
  const u32 offset = head * T::kSize + at.first * 16;
  const u64 stride = at.step * 16;
  auto has = [&](int slot) { return at.first + slot * at.step < units; };
  auto none_has = [&](int slot) { return slot * at.step >= units; };

  Vector in[kSlots], add[kSlots];
  const char* x = row_at(p.x, at.row, p.x_pitch, offset);
  const char* residual = kAdd ? row_at(p.residual, at.row, p.residual_pitch, offset) : nullptr;
#pragma unroll
  for (int s = 0; s < kSlots; ++s) {
    in[s].clear();
    if (has(s)) load<16>(x + s * stride, in[s].word);
    if constexpr (kAdd) {
      add[s].clear();
      if (has(s)) load<16>(residual + s * stride, add[s].word);
    }
  }
  // The first weights are on their way while the sum is made; the others follow one unit ahead of their use.
  const bool whole_weights = !kShifted && p.weight_kind == KW_WEIGHT_LIKE_X;
  const char* weights = p.weight + at.first * 16;
  Vector weight;
  if (whole_weights && has(0)) load<16>(weights, weight.word);

  auto unpack = [&](int slot, float (&h)[kCount]) {
    in[slot].unpack(h);
    if constexpr (kAdd) {
      float r[kCount];
      add[slot].unpack(r);
#pragma unroll
      for (int i = 0; i < kCount; ++i) h[i] += r[i];
    }
  };
  float total = edge.h[0] * edge.h[0];
  char* sum = kAdd ? row_at(p.sum, at.row, p.sum_pitch, offset) : nullptr;
#pragma unroll
  for (int s = 0; s < kSlots; ++s) {
    if (none_has(s)) break;
    float h[kCount];
    unpack(s, h);
    total += squares(h);
    if constexpr (kAdd) {
      if (has(s)) store_unit<T, 16>(sum + s * stride, h);
    }
  }
  const float rstd = rstd_of(p, row_sum(p, total, scratch));
  if (at.first == 0 && p.rstd != nullptr) p.rstd[at.row] = rstd;

  char* y = row_at(p.y, at.row, p.y_pitch, offset);
#pragma unroll
  for (int s = 0; s < kSlots; ++s) {
    if (!has(s)) break;
    const u32 column = head + (at.first + s * at.step) * kCount;
    float h[kCount], w[kCount];
    if constexpr (kShifted) {
      load_weight_elements<T, kCount>(p, column, w);
    } else if (whole_weights) {
      weight.unpack(w);
      if (s + 1 < kSlots && has(s + 1)) load<16>(weights + (s + 1) * stride, weight.word);
    } else {
      load_weight<T, 16>(p, column, w, false);
    }
    unpack(s, h);
    scale(h, rstd, w);
    store_unit<T, 16>(y + s * stride, h);
  }
  if constexpr (kShifted) edge.finish(p, at.row, rstd);
}

// A warp holds several times as many rows as lie side by side in one of its loads, all of them adjacent.
template <class T, bool kAdd, int kBytes, bool kShifted>
__device__ __forceinline__ void rms_norm_narrow(const Params& p) {
  using Piece = Unit<T, kBytes>;
  constexpr int kCount = Piece::kCount;
  constexpr int kRows = kCount == 1 ? kScalarSlots : kSlots;

  allow_next_kernel();
  wait_for_previous_kernel();
  const u32 group = p.group, lane = threadIdx.x % kWarp, unit = lane % group, side = kWarp / group;
  const i64 warp = static_cast<i64>(blockIdx.x) * (blockDim.x / kWarp) + threadIdx.x / kWarp;
  const i64 first = warp * (side * kRows) + lane / group;

  Span span[kRows] = {};
  Edge<T, kAdd> edge[kRows];
  Piece in[kRows], add[kRows];
  auto row = [&](int slot) { return first + slot * side; };
  auto has = [&](int slot) { return unit < span[slot].units && row(slot) < p.rows; };
  auto offset = [&](int slot) { return span[slot].head * T::kSize + unit * kBytes; };
#pragma unroll
  for (int s = 0; s < kRows; ++s) {
    span[s] = kBytes == 16 ? span_of<T, kShifted>(p, row(s)) : Span{0, static_cast<u32>(p.cols)};
    in[s].clear();
    if (has(s)) load<kBytes>(p.x + row(s) * p.x_pitch + offset(s), in[s].word);
    if constexpr (kAdd) {
      add[s].clear();
      if (has(s)) load<kBytes>(p.residual + row(s) * p.residual_pitch + offset(s), add[s].word);
    }
    if constexpr (kShifted) {
      if (row(s) < p.rows) edge[s].find(unit, span[s], p.cols);
      edge[s].read(p, row(s));
    }
  }
  float w[kCount];
  if (!kShifted && has(0)) load_weight<T, kBytes>(p, unit * kCount, w);

  auto unpack = [&](int slot, float (&h)[kCount]) {
    in[slot].unpack(h);
    if constexpr (kAdd) {
      float r[kCount];
      add[slot].unpack(r);
#pragma unroll
      for (int i = 0; i < kCount; ++i) h[i] += r[i];
    }
  };
  float total[kRows];
#pragma unroll
  for (int s = 0; s < kRows; ++s) {
    float h[kCount];
    unpack(s, h);
    total[s] = squares(h) + edge[s].h[0] * edge[s].h[0];
    if constexpr (kAdd) {
      if (has(s)) store_unit<T, kBytes>(p.sum + row(s) * p.sum_pitch + offset(s), h);
    }
  }
  for (u32 mask = group / 2; mask > 0; mask /= 2) {
#pragma unroll
    for (int s = 0; s < kRows; ++s) total[s] += shuffle_xor(total[s], mask);
  }

#pragma unroll
  for (int s = 0; s < kRows; ++s) {
    const float rstd = rstd_of(p, total[s]);
    if (unit == 0 && row(s) < p.rows && p.rstd != nullptr) p.rstd[row(s)] = rstd;
    if constexpr (kShifted) edge[s].finish(p, row(s), rstd);
    if (!has(s)) continue;
    float h[kCount];
    unpack(s, h);
    if constexpr (kShifted) load_weight_elements<T, kCount>(p, span[s].head + unit * kCount, w);
    scale(h, rstd, w);
    store_unit<T, kBytes>(p.y + row(s) * p.y_pitch + offset(s), h);
  }
}

// Every element is read again by the thread that read it first, just before that thread writes there: the sum and
// the result may lie where the inputs do.
template <class T, int kBytes>
__device__ __forceinline__ void rms_norm_stream(const Params& p) {
  using Piece = Unit<T, kBytes>;
  constexpr int kCount = Piece::kCount;
  constexpr int kPieces = kCount == 1 ? kScalarSlots : kSlots;
  __shared__ __align__(16) SumScratch scratch;

  begin(p, scratch);
  const Place at = place_in_rows(p);
  if (at.row >= p.rows) return;
  const bool with_residual = p.residual != nullptr;
  const char* x = row_at(p.x, at.row, p.x_pitch, 0);
  const char* residual = row_at(p.residual, at.row, p.residual_pitch, 0);
  const u32 units = static_cast<u32>(p.cols) / kCount, stride = at.step * kPieces;

  Piece in[kPieces], add[kPieces];
  auto load_pieces = [&](u32 begin) {
#pragma unroll
    for (int s = 0; s < kPieces; ++s) {
      const u32 unit = begin + s * at.step;
      in[s].clear(), add[s].clear();
      if (unit < units) load<kBytes>(x + unit * kBytes, in[s].word);
      if (unit < units && with_residual) load<kBytes>(residual + unit * kBytes, add[s].word);
    }
  };
  auto unpack = [&](int slot, float (&h)[kCount]) {
    float r[kCount];
    in[slot].unpack(h);
    add[slot].unpack(r);
#pragma unroll
    for (int i = 0; i < kCount; ++i) h[i] += r[i];
  };

  float total = 0.0f;
  u32 begin = at.first;
  for (; begin < units; begin += stride) {
    load_pieces(begin);
#pragma unroll
    for (int s = 0; s < kPieces; ++s) {
      float h[kCount];
      unpack(s, h);
      total += squares(h);
    }
  }
  const float rstd = rstd_of(p, row_sum(p, total, scratch));
  if (at.first == 0 && p.rstd != nullptr) p.rstd[at.row] = rstd;

  // Backwards: what was read last is still nearest.
  char* y = row_at(p.y, at.row, p.y_pitch, 0);
  char* sum = row_at(p.sum, at.row, p.sum_pitch, 0);
  while (begin != at.first) {
    begin -= stride;
    load_pieces(begin);
#pragma unroll
    for (int s = 0; s < kPieces; ++s) {
      const u32 unit = begin + s * at.step;
      if (unit >= units) break;
      float h[kCount], w[kCount];
      unpack(s, h);
      if (with_residual) store_unit<T, kBytes>(sum + unit * kBytes, h);
      load_weight<T, kBytes>(p, unit * kCount, w);
      scale(h, rstd, w);
      store_unit<T, kBytes>(y + unit * kBytes, h);
    }
  }
}

}  // namespace kw

// The names are the launcher's: rms_norm_<shape>[_add]_<type>. Of blocks of `threads` a multiprocessor holds at least
// `blocks`, which bounds the registers: without a residual 40 do, and half as many warps again are at work.
#define KW_KERNEL(name, threads, blocks, ...)                                                              \
  extern "C" __global__ void __launch_bounds__(threads, blocks) rms_norm_##name(const KwRmsNormParams p) { \
    __VA_ARGS__(p);                                                                                        \
  }
#define KW_KERNELS(type, T)                                                                   \
  KW_KERNEL(row_##type, 768, 2, kw::rms_norm_row<kw::T, false, false>)                        \
  KW_KERNEL(row_add_##type, 1024, 1, kw::rms_norm_row<kw::T, true, false>)                    \
  KW_KERNEL(shifted_##type, 640, 2, kw::rms_norm_row<kw::T, false, true>)                     \
  KW_KERNEL(shifted_add_##type, 1024, 1, kw::rms_norm_row<kw::T, true, true>)                 \
  KW_KERNEL(narrow_##type, 64, 16, kw::rms_norm_narrow<kw::T, false, 16, false>)              \
  KW_KERNEL(narrow_add_##type, 64, 12, kw::rms_norm_narrow<kw::T, true, 16, false>)           \
  KW_KERNEL(jagged_##type, 64, 14, kw::rms_norm_narrow<kw::T, false, 16, true>)               \
  KW_KERNEL(jagged_add_##type, 64, 12, kw::rms_norm_narrow<kw::T, true, 16, true>)            \
  KW_KERNEL(scalar_##type, 64, 16, kw::rms_norm_narrow<kw::T, false, kw::T::kSize, false>)    \
  KW_KERNEL(scalar_add_##type, 64, 12, kw::rms_norm_narrow<kw::T, true, kw::T::kSize, false>) \
  KW_KERNEL(stream_##type, 1024, 1, kw::rms_norm_stream<kw::T, 16>)                           \
  KW_KERNEL(trickle_##type, 1024, 1, kw::rms_norm_stream<kw::T, kw::T::kSize>)

KW_KERNELS(float32, Float32)
KW_KERNELS(float16, Float16)
KW_KERNELS(bfloat16, BFloat16)
