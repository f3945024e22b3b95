// SPDX-License-Identifier: MIT
// What the kernels of swiglu share: where a unit lies in each tensor, and what is made of it.
#pragma once

#include "device/element.cuh"
#include "device/ptx/memory.cuh"
#include "ops/gated/device/math.cuh"
#include "ops/gated/geometry.h"
#include "ops/gated/params.h"

namespace kw {

constexpr u32 kSwigluWarp = 32;

__device__ __forceinline__ u32 row_of_unit(const KwSwigluParams& p, u32 number) {
  return static_cast<u32>(static_cast<u64>(number) * p.magic >> p.shift);
}

// Where a unit, or an element, lies in each tensor.
struct SwigluPlace {
  const char* gate;
  const char* up;
  const char* dy;
  char* out;
  char* up_out;

  __device__ __forceinline__ SwigluPlace(const KwSwigluParams& p, u32 row, i64 offset)
      : gate(p.gate + row * p.gate_pitch + offset),
        up(p.up + row * p.up_pitch + offset),
        dy(p.dy + row * p.dy_pitch + offset),
        out(p.out + row * p.out_pitch + offset),
        up_out(p.up_out + row * p.up_out_pitch + offset) {}
};

// A unit of the inputs.
template <class T, int kBytes, bool kBackward>
struct SwigluUnit {
  using Piece = Unit<T, kBytes>;
  Piece gate, up, dy;

  __device__ __forceinline__ void read(const SwigluPlace& at, u64 policy) {
    read_one(at.gate, policy, gate);
    read_one(at.up, policy, up);
    if constexpr (kBackward) read_one(at.dy, policy, dy);
  }

  // The results take the place of gate and, backward, of up.
  __device__ __forceinline__ void compute() {
    constexpr bool kExact = T::kSize == 4;
    float g[Piece::kCount], u[Piece::kCount], d[Piece::kCount];
    gate.unpack(g);
    up.unpack(u);
    if constexpr (kBackward) dy.unpack(d);
#pragma unroll
    for (int i = 0; i < Piece::kCount; ++i) {
      if constexpr (kBackward) {
        swiglu_backward<kExact>(d[i], g[i], u[i]);
      } else {
        g[i] = swiglu<kExact>(g[i], u[i]);
      }
    }
    gate.pack(g);
    if constexpr (kBackward) up.pack(u);
  }

  __device__ __forceinline__ void write(const SwigluPlace& at) {
    compute();
    store<kBytes>(at.out, gate.word);
    if constexpr (kBackward) store<kBytes>(at.up_out, up.word);
  }

 private:
  __device__ __forceinline__ static void read_one(const char* from, u64 policy, Piece& piece) {
    if constexpr (kBytes == 16) {
      load_vector(from, piece.word, policy);
    } else {
      load<kBytes>(from, piece.word);
    }
  }
};

}  // namespace kw
