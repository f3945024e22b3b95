// SPDX-License-Identifier: MIT
// The shared memory of a thread of the derivatives: rows ahead are on their way there, of which a thread reads what it
// copied, or the lane after it did; and the weights of its columns.
#pragma once

#include "device/ptx/async.cuh"
#include "device/realign.cuh"
#include "ops/norm/device/backward_place.cuh"

namespace kw {

template <class T, Lie kLie, u32 kLag, u32 kColumns>
struct BackwardStage : BackwardPlace<T, kLie, kLag, kColumns> {
  using Place = BackwardPlace<T, kLie, kLag, kColumns>;
  using Place::at, Place::buffer, Place::column, Place::first, Place::group, Place::has, Place::kCount, Place::kLine;
  using Place::end, Place::is_part, Place::kAligned, Place::kEdges, Place::kInPhase, Place::kWide, Place::lead;
  using Place::kSlots;
  using Place::offset_of, Place::p, Place::place, Place::tensor_bytes, Place::turns, Place::unit, Place::weights_from;
  using typename Place::Piece;

  const char *dy, *h;  // where rows are to be read next
  u32 end_turn;        // when this thread has a row that ends where the tensors end, or so near that 16 bytes hold both

  __device__ __forceinline__ BackwardStage(const KwNormBackwardParams& params, u32 memory) : Place(params, memory) {
    if constexpr (!kInPhase) begin_rows();
  }

  __device__ __forceinline__ void begin_rows() {
    const i64 row = this->first_row();
    const int from = first * 16 - lead * T::kSize;
    dy = p.dy + row * p.dy_pitch + from;
    h = p.h + row * p.h_pitch + from;
    end_turn = turns > 0 && row + (turns - 1) * p.step + kCount >= p.rows ? turns - 1 : kNever;
  }

  __device__ __forceinline__ void next_row() {
    dy += p.dy_step;
    h += p.h_step;
    this->forget(dy);
    this->forget(h);
    copies_commit();
  }

  __device__ __forceinline__ void fetch(u32 stage, u32 turn, int slot) const {
    if (slot == kSlots && place() != 0) return;
    fetch_vector(stage + slot * kLine, turn, slot, dy);
    fetch_vector(stage + tensor_bytes() + slot * kLine, turn, slot, h);
  }

  // fetch() of a row's first unit in the first turn: where its vector begins before the tensor, the elements are read
  // one by one, and at once. Later turns could not afford that, and have other rows before theirs.
  __device__ __forceinline__ void fetch_beginning(u32 stage) const {
    fetch_beginning_of(stage, dy, p.dy);
    fetch_beginning_of(stage + tensor_bytes(), h, p.h);
  }

  __device__ __forceinline__ void fetch_beginning_of(u32 to, const char* row, const char* tensor) const {
    const u32 before = before_row(row);
    if (vectors_of(row) >= tensor || turns == 0) return fetch_vector(to, 0, 0, row);
    u32 word[4];
    load_elements<T>(vectors_of(row), before, before + p.cols, word);
    store_shared(to, word);
  }

  // Elements before the row in its first vector, and where that is.
  __device__ __forceinline__ u32 before_row(const char* row) const { return kEdges ? lead : offset_of(row) / T::kSize; }
  static __device__ __forceinline__ const char* vectors_of(const char* row) {
    return kEdges ? row : row - offset_of(row);
  }

  // Zeros from the end of the row on; at the end of the tensors, of the whole vector.
  __device__ __forceinline__ void fetch_vector(u32 to, u32 turn, int slot, const char* row) const {
    if constexpr (kAligned && !kEdges) {
      copy_async(to, row + at(slot), has(turn, slot) ? 16 : 0);
    } else if constexpr (kEdges) {
      const u32 bytes = this->bytes_of(slot);
      copy_async(to, row + at(slot), turn >= turns || (turn == end_turn && bytes < 16) ? 0 : bytes);
    } else {
      const int left = (p.cols + before_row(row)) * T::kSize - static_cast<int>(unit(slot) * 16);
      const int fewest = turn == end_turn ? 16 : 0;
      copy_async(to, vectors_of(row) + at(slot), turn >= turns || left < fewest ? 0 : left < 16 ? left : 16);
    }
  }

  // What was left out at the end of the tensors, when the copies are done: each would be of 16 bytes of memory, however
  // few it was asked to bring. Of a thread's vectors at most one of each tensor holds the end of the row.
  __device__ __forceinline__ void read_end(u32 stage) const {
#pragma unroll 1
    for (int i = 0; i < 2; ++i) {
      const char *row = i == 0 ? dy - 2 * p.dy_step : h - 2 * p.h_step, *tensor = i == 0 ? p.dy : p.h;
      const u32 before = before_row(row), end = (p.cols + before) * T::kSize, vector = end / 16 - first;
      const u32 slot = vector / group();
      if (end % 16 == 0 || end / 16 < first || vector % group() != 0 || slot > kSlots) continue;
      if (slot == kSlots && (kAligned || place() != 0)) continue;
      const char* from = vectors_of(row) + vector * 16;
      u32 word[4];
      load_elements<T>(from, from < tensor ? before : 0, end % 16 / T::kSize, word);
      store_shared(stage + i * tensor_bytes() + slot * kLine, word);
    }
  }

  // A unit of dy and of h, `behind` rows before the one that is fetched next; zeros where there is none.
  __device__ __forceinline__ void read(u32 stage, u32 behind, int slot, float (&y)[kCount], float (&x)[kCount]) const {
    Piece of_y, of_x;
    read_unit(stage + slot * kLine, dy - behind * p.dy_step, of_y);
    read_unit(stage + tensor_bytes() + slot * kLine, h - behind * p.h_step, of_x);
    of_y.unpack(y);
    of_x.unpack(x);
  }

  __device__ __forceinline__ void read_unit(u32 from, const char* row, Piece& piece) const {
    if constexpr (kAligned) {
      load_shared(from, piece.word);
    } else {
      u32 low[4], high[4];
      load_shared(from, low);
      load_shared(from + (place() + 1 < group() ? 16 : kLine - place() * 16), high);
      realign<T::kSize>(low, high, offset_of(row), piece.word);
    }
  }

  // What a row's first and last units have beside the row: nothing of dy, and of h what is no distance from `pivot`,
  // which is one of T.
  __device__ __forceinline__ void fill_around_row(u32 stage, float pivot) const {
    Unit<T, T::kSize> other;
    other.pack(&pivot);
    if constexpr (T::kSize == 2) other.word[0] = byte_permute(other.word[0], 0, 0x1010);
#pragma unroll
    for (int s = 0; s < kSlots; ++s) {
      if (!is_part(s)) continue;
      fill_around<T::kSize>(stage + s * kLine, this->part_of(s), 0);
      fill_around<T::kSize>(stage + tensor_bytes() + s * kLine, this->part_of(s), other.word[0]);
    }
  }

  // As float32, so that one kernel serves every type of them; a wide block has no room for that. Not unrolled: done
  // once.
  __device__ __forceinline__ void keep_weights() const {
#pragma unroll 1
    for (int s = 0; s < kSlots; ++s) {
      float weight[kCount];
      weights_at(column(s), weight);
      if constexpr (kWide) {
        Piece piece;
        piece.pack(weight);
        store_shared(buffer + weights_from() + s * kLine, piece.word);
      } else {
#pragma unroll
        for (int i = 0; i < kCount; i += 4) {
          const u32 word[4] = {bits_of_float(weight[i]), bits_of_float(weight[i + 1]), bits_of_float(weight[i + 2]),
                               bits_of_float(weight[i + 3])};
          store_shared(buffer + weights_from() + (s * kCount + i) / 4 * kLine, word);
        }
      }
    }
  }

  // Of kCount columns from `column` on, as far as there are so many.
  __device__ __forceinline__ void weights_at(u32 column, float (&weight)[kCount]) const {
    if constexpr (kEdges) return each_weight(column, weight);
    const u32 left = column < p.cols ? p.cols - column : 0;
#pragma unroll
    for (int i = 0; i < kCount; ++i) weight[i] = 1.0f;
    if (p.weight_kind == KW_WEIGHT_LIKE_X && left > 0) {
      Piece piece;
      load_first<T>(p.weight + column * T::kSize, left, p.weight, p.weight + p.cols * T::kSize, piece.word);
      piece.unpack(weight);
    }
    if (!kWide && T::kSize < 4 && p.weight_kind == KW_WEIGHT_FLOAT32) {
#pragma unroll
      for (u32 i = 0; i < kCount; i += 4) {
        Unit<Float32, 16> piece;
        if (i < left) {
          load_first<Float32>(p.weight + (column + i) * 4, left - i, p.weight, p.weight + p.cols * 4, piece.word);
          piece.unpack(weight + i);
        }
      }
    }
  }

  // The same where `column` may be before the first.
  __device__ __forceinline__ void each_weight(u32 column, float (&weight)[kCount]) const {
#pragma unroll
    for (u32 i = 0; i < kCount; ++i) {
      u32 word[1] = {0};
      weight[i] = 1.0f;
      if (column + i >= p.cols || p.weight_kind == KW_WEIGHT_NONE) continue;
      if (T::kSize == 4 || (!kWide && p.weight_kind == KW_WEIGHT_FLOAT32)) {
        load<4>(p.weight + (column + i) * 4, word);
        weight[i] = float_of_bits(word[0]);
      } else {
        Unit<T, T::kSize> one;
        load<T::kSize>(p.weight + (column + i) * T::kSize, one.word);
        one.unpack(&weight[i]);
      }
    }
  }

  __device__ __forceinline__ void weights(int slot, float (&weight)[kCount]) const {
    if constexpr (kWide) {
      Piece piece;
      load_shared(buffer + weights_from() + slot * kLine, piece.word);
      piece.unpack(weight);
    } else {
#pragma unroll
      for (int i = 0; i < kCount; i += 4) {
        Unit<Float32, 16> quad;
        load_shared(buffer + weights_from() + (slot * kCount + i) / 4 * kLine, quad.word);
        quad.unpack(weight + i);
      }
    }
  }

  // Near the elements of h that the lanes of this one's row have: the mean of their first few.
  __device__ __forceinline__ float pivot_of(u32 stage) const {
    Piece piece;
    if constexpr (kAligned) {
      // A row's first vector may hold little of it.
      load_shared(stage + tensor_bytes() - place() * 16 + (kEdges && first == place() ? 16 : 0), piece.word);
    } else {
      const u32 from = stage + tensor_bytes() - place() * 16;
      u32 low[4], high[4];
      load_shared(from, low);
      load_shared(from + (group() > 1 ? 16 : kLine), high);
      realign<T::kSize>(low, high, offset_of(h - 2 * p.h_step), piece.word);
    }
    float x[kCount];
    piece.unpack(x);
    float pivot = ((x[0] + x[1]) + (x[2] + x[3])) * 0.25f;
    if ((!kAligned || kEdges) && end() < 4 + (first - place()) * kCount) pivot = x[0];
    if constexpr (kEdges) {
      Unit<T, T::kSize> rounded;
      rounded.pack(&pivot);
      rounded.unpack(&pivot);
    }
    return pivot;
  }
};

}  // namespace kw
