// SPDX-License-Identifier: MIT
// Rows that begin or end off 16 bytes in any of the tensors. The aligned vectors that hold a row are copied to shared
// memory as they lie, and lanes take single elements from there, so that nothing depends on where a row begins. A row
// is a warp's, a block's or a cluster's; what its shared memory does not hold is read from memory each time.
#pragma once

#include "device/ptx/async.cuh"
#include "device/ptx/shared.cuh"
#include "ops/norm/device/common.cuh"

namespace kw {

constexpr u32 kRun = 8;  // elements of a lane, a warp apart, that are done at once

// kCount elements of weight or bias a warp apart, as float32; `otherwise` where there is none.
template <class T, u32 kCount>
__device__ __forceinline__ void load_columns(const char* data, int kind, u32 column, float otherwise,
                                             float (&value)[kCount]) {
#pragma unroll
  for (u32 i = 0; i < kCount; ++i) value[i] = otherwise;
  if (kind == KW_WEIGHT_LIKE_X) {
    Unit<T, T::kSize> unit[kCount];
#pragma unroll
    for (u32 i = 0; i < kCount; ++i) load<T::kSize>(data + column * T::kSize + i * (kWarp * T::kSize), unit[i].word);
#pragma unroll
    for (u32 i = 0; i < kCount; ++i) unit[i].unpack(&value[i]);
  } else if (T::kSize < 4 && kind == KW_WEIGHT_FLOAT32) {
    u32 word[kCount][1];
#pragma unroll
    for (u32 i = 0; i < kCount; ++i) load<4>(data + column * 4 + i * (kWarp * 4), word[i]);
#pragma unroll
    for (u32 i = 0; i < kCount; ++i) value[i] = float_of_bits(word[i][0]);
  }
}

template <bool kCentered, class T>
class UnalignedRow {
  using Element = Unit<T, T::kSize>;
  static constexpr u32 kStride = kWarp * T::kSize;

  const Params& p;
  const i64 row;
  const u32 thread, threads;  // of those that have a part of the row together
  u32 begin, held, end;       // the part's columns, of which those before `held` are in shared memory
  u32 x, residual;            // where column 0 would be there
  Tally<kCentered> tally;

 public:
  __device__ __forceinline__ UnalignedRow(const Params& params, const Place& place, u32 memory)
      : p(params),
        row(place.row),
        thread(p.row_is_a_warp ? place.thread : threadIdx.x),
        threads(p.row_is_a_warp ? kWarp : blockDim.x) {
    const u32 cols = p.cols, part = p.part, bytes = (p.held * T::kSize + 16) / 16 * 16 + 16;
    begin = p.row_is_a_warp ? 0 : cluster_rank(p) * part;
    end = cols < begin + part ? cols : begin + part;
    held = end < begin + p.held ? end : begin + p.held;
    memory += p.row_is_a_warp ? threadIdx.x / kWarp * bytes * (p.residual == nullptr ? 1 : 2) : 0;
    x = fetch(p.x + row * p.x_pitch, memory);
    residual = p.residual == nullptr ? 0 : fetch(p.residual + row * p.residual_pitch, memory + bytes);
  }

  __device__ __forceinline__ void run(typename Tally<kCentered>::Scratch& scratch) {
    copies_commit();
    copies_wait<0>();
    if (p.row_is_a_warp) {
      __syncwarp();
    } else {
      __syncthreads();
    }
    float first[1] = {0.0f};
    const bool has = begin + thread < held;
    if (has) read(begin + thread, first);
    tally.begin_elements(first[0], has);
    each([&](u32 column, auto& h) {
      read(column, h);
      take(h);
    });
    const Statistics of_row = tally.template of_row<true>(p, scratch);
    if (begin == 0 && thread == 0) store_statistics<kCentered>(p, row, of_row);
    each([&](u32 column, auto& h) {
      read(column, h);
      if (p.residual != nullptr) store_all(p.sum + row * p.sum_pitch, column, h);  // which may be where it was read
      normalise_all(of_row, column, h);
      store_all(p.y + row * p.y_pitch, column, h);
    });
  }

 private:
  // Brings the vectors that hold the part of the row. Those that are not the row's alone are read by elements.
  __device__ __forceinline__ u32 fetch(const char* tensor, u32 memory) const {
    const char* from = tensor + begin * T::kSize;
    const u32 off = static_cast<u32>(reinterpret_cast<u64>(from)) & 15u;
    const u32 bytes = held > begin ? off + (held - begin) * T::kSize : 0;
    const u32 whole = off + (p.cols - begin) * T::kSize;  // to the row's end
#pragma unroll 1
    for (u32 at = thread * 16; at < bytes; at += threads * 16) {
      if (at + begin * T::kSize >= off && at + 16 <= whole) {
        copy_async(memory + at, from - off + at, 16);
        continue;
      }
      u32 word[4];
      load_elements<T>(from - off + at, at < off ? (off - at) / T::kSize : 0, (whole - at) / T::kSize, word);
      store_shared(memory + at, word);
    }
    return memory + off - begin * T::kSize;
  }

  // Calls use(column, h) with columns of the part that are this thread's: several a warp apart, or one.
  template <class Use>
  __device__ __forceinline__ void each(Use use) const {
    const u32 warps = threads / kWarp, share = ((end - begin + warps - 1) / warps + kWarp - 1) / kWarp * kWarp;
    const u32 from = begin + thread / kWarp * share, to = from + share < end ? from + share : end;
    u32 column = from + thread % kWarp;
#pragma unroll 1
    for (; column - thread % kWarp + kRun * kWarp <= to && from < to; column += kRun * kWarp) {
      float h[kRun];
      use(column, h);
    }
#pragma unroll 1
    for (; column < to; column += kWarp) {
      float h[1];
      use(column, h);
    }
  }

  template <u32 kCount>
  __device__ __forceinline__ void read(u32 column, float (&h)[kCount]) const {
    read_one(x, p.x + row * p.x_pitch, column, h);
    if (p.residual == nullptr) return;
    float r[kCount];
    read_one(residual, p.residual + row * p.residual_pitch, column, r);
#pragma unroll
    for (u32 i = 0; i < kCount; ++i) h[i] += r[i];
  }

  template <u32 kCount>
  __device__ __forceinline__ void read_one(u32 memory, const char* tensor, u32 column, float (&h)[kCount]) const {
    Element element[kCount];
#ifndef KW_HAS_CLUSTER  // which holds every row
    if (column - thread % kWarp + kCount * kWarp > held) {
#pragma unroll
      for (u32 i = 0; i < kCount; ++i) load<T::kSize>(tensor + column * T::kSize + i * kStride, element[i].word);
    } else
#endif
    {
#pragma unroll
      for (u32 i = 0; i < kCount; ++i) load_shared<T::kSize>(memory + column * T::kSize + i * kStride, element[i].word);
    }
#pragma unroll
    for (u32 i = 0; i < kCount; ++i) element[i].unpack(&h[i]);
  }

  template <u32 kCount>
  __device__ __forceinline__ void take(const float (&h)[kCount]) {
#pragma unroll
    for (u32 i = 0; i < kCount; ++i) tally.take_element(h[i]);
    tally.count_elements(kCount);
  }

  template <u32 kCount>
  __device__ __forceinline__ void normalise_all(const Statistics& of_row, u32 column, float (&h)[kCount]) const {
    float weight[kCount], bias[kCount];
    load_columns<T>(p.weight, p.weight_kind, column, 1.0f, weight);
    if constexpr (kCentered) load_columns<T>(p.bias, p.bias_kind, column, 0.0f, bias);
#pragma unroll
    for (u32 i = 0; i < kCount; ++i) {
      h[i] = (kCentered ? h[i] - of_row.mean : h[i]) * of_row.rstd * weight[i];
      if constexpr (kCentered) h[i] += bias[i];
    }
  }

  template <u32 kCount>
  __device__ __forceinline__ void store_all(char* tensor, u32 column, const float (&h)[kCount]) const {
#pragma unroll
    for (u32 i = 0; i < kCount; ++i) {
      const float one[1] = {h[i]};
      store_unit<T, T::kSize>(tensor + column * T::kSize + i * kStride, one);
    }
  }
};

template <bool kCentered, class T>
__device__ __forceinline__ void norm_unaligned(const Params& p) {
  extern __shared__ __align__(128) char norm_unaligned_memory[];
  __shared__ typename Tally<kCentered>::Scratch scratch;
  begin<true>(p, scratch);
  const Place at = place_in_rows(p);
  if (at.row >= p.rows) return;  // whole warps: a block's rows are there
  UnalignedRow<kCentered, T>(p, at, shared_address(norm_unaligned_memory)).run(scratch);
}

}  // namespace kw
