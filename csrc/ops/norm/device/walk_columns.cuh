// SPDX-License-Identifier: MIT
// What a cluster that walks over rows keeps of weight and bias, and the elements of these rows that are in no unit.
#pragma once

#include "device/ptx/async.cuh"
#include "ops/norm/device/edge.cuh"

namespace kw {

// The whole units of rows of one kind; weights may lie anyhow.
template <class T>
__device__ __forceinline__ Span walk_span(const Params& p, i64 row) {
  constexpr u32 kCount = 16 / T::kSize;
  const bool whole = ((reinterpret_cast<u64>(p.y) + row * p.y_pitch) % 16 | p.cols % kCount) == 0;
  return whole ? Span{0, p.cols / kCount} : span_of<T>(p, row);
}

// A warp's units of weight or bias in shared memory, each of which its thread alone reads in the end. All of them are
// asked for at once, as they lie, and then shifted into place: what lies in no whole vector of the row is left to
// edges.
template <class T, bool kCentered>
struct WalkColumns {
  static constexpr u32 kCount = 16 / T::kSize, kRun = kWarp * 16, kStride = kRun * (kCentered ? 2 : 1);
  const char* from;  // the thread's first unit; null: none
  u32 to;

  __device__ __forceinline__ u32 off() const { return static_cast<u32>(reinterpret_cast<u64>(from)) % 16; }

  __device__ __forceinline__ void ask(u32 mine, float otherwise) const {
    Unit<T, 16> unit;
    float value[kCount];
#pragma unroll
    for (u32 i = 0; i < kCount; ++i) value[i] = otherwise;
    unit.pack(value);
    for (u32 s = 0; s < mine; ++s) {
      if (from == nullptr) {
        store_shared<16>(to + s * kStride, unit.word);
      } else {
        copy_async(to + s * kStride, from - off() + s * kRun, 16);
      }
    }
  }

  // `units` and more follow the thread's first one in the row.
  __device__ __forceinline__ void place(u32 mine, u32 slots, u32 units) const {
    if (from == nullptr || off() == 0) return;
    const bool last_lane = threadIdx.x % kWarp == kWarp - 1;
    for (u32 s = 0; s < slots; ++s) {
      u32 low[4], high[4], word[4];
      if (s < mine) {
        load_shared<16>(to + s * kStride, low);
        const bool another_warp = last_lane && s + 1 == slots;
        if (s * kWarp + 1 < units && !another_warp) {
          load_shared<16>(to + s * kStride + 16 + (last_lane ? kStride - kRun : 0), high);
        } else {
          load<16>(from - off() + s * kRun + 16, high);
        }
        realign<T::kSize>(low, high, off(), word);
      }
      __syncwarp();
      if (s < mine) store_shared<16>(to + s * kStride, word);
    }
  }
};

template <bool kCentered, class Vector, int kCount>
__device__ __forceinline__ void apply(const Statistics& of_row, const Vector& weight, const Vector& bias,
                                      float (&h)[kCount]) {
  float value[kCount];
  if constexpr (kCentered) subtract(h, of_row.mean);
  weight.unpack(value);
#pragma unroll
  for (int i = 0; i < kCount; ++i) h[i] = h[i] * of_row.rstd * value[i];
  if constexpr (!kCentered) return;
  bias.unpack(value);
#pragma unroll
  for (int i = 0; i < kCount; ++i) h[i] += value[i];
}

// The element of a thread of the first warp, if it has one: asked for a row ahead, as units are.
template <class T>
struct WalkEdge : Edge<T> {
  Unit<T, T::kSize> x, residual;

  // Threads number find()'s: those of a warp.
  template <bool kCentered>
  __device__ __forceinline__ void bring(const Params& p, float (&weight)[kWarp], float (&bias)[kWarp]) const {
    if (this->column < 0) return;
    weight[threadIdx.x] = p.weight != nullptr ? element(p.weight) : 1.0f;
    if (kCentered) bias[threadIdx.x] = p.bias != nullptr ? element(p.bias) : 0.0f;
  }

  __device__ __forceinline__ void ask(const Params& p, i64 row, bool adds) {
    if (this->column < 0) return;
    const u32 offset = this->column * T::kSize;
    load<T::kSize>(p.x + row * p.x_pitch + offset, x.word);
    if (adds) load<T::kSize>(p.residual + row * p.residual_pitch + offset, residual.word);
  }

  __device__ __forceinline__ void take(const Params& p, i64 row, bool adds) {
    if (this->column < 0) return;
    x.unpack(this->h);
    if (!adds) return;
    float r[1];
    residual.unpack(r);
    this->h[0] += r[0];
    store_unit<T, T::kSize>(p.sum + row * p.sum_pitch + this->column * T::kSize, this->h);
  }

  template <bool kCentered>
  __device__ __forceinline__ void finish(const Params& p, i64 row, const Statistics& of_row,
                                         const float (&weight)[kWarp], const float (&bias)[kWarp]) {
    if (this->column < 0) return;
    Unit<Float32, 4> w, b;
    w.word[0] = bits_of_float(weight[threadIdx.x]);
    if (kCentered) b.word[0] = bits_of_float(bias[threadIdx.x]);
    apply<kCentered>(of_row, w, b, this->h);
    store_unit<T, T::kSize>(p.y + row * p.y_pitch + this->column * T::kSize, this->h);
  }

 private:
  __device__ __forceinline__ float element(const char* data) const {
    Unit<T, T::kSize> unit;
    float value[1];
    load<T::kSize>(data + this->column * T::kSize, unit.word);
    unit.unpack(value);
    return value[0];
  }
};

}  // namespace kw
