// SPDX-License-Identifier: MIT
// Products with a ternary weight, which two operators are. Groups of its rows are taken apart among the threads; each
// spreads x by itself, which is little beside the products of its rows.
#include "cpu/pages.h"
#include "cpu/pool.h"
#include "ops/ternary/cpu/product.h"

namespace kw::cpu {

KW_CPU_RANGE(ternary_groups)

namespace KW_ISA {
namespace {

constexpr int64_t kPieceGroups = 32;  // groups whose sums are held at a time
constexpr int64_t kRoom = 24576;      // bytes of x that are spread at a time: a first cache has that

struct Product {
  const MatmulTernary& a;
  int64_t blocks = ternary::blocks_of(a.k);
  alignas(64) int8_t room[kRoom];
  int32_t sums[kPieceGroups][kTileRows][KW_TERNARY_ROWS];
  int32_t of_x[kTileRows];

  explicit Product(const MatmulTernary& a) : a(a) {}

  // Blocks from `first` on of rows of x, zeros past its end; and what the rows sum up to.
  void bring(int64_t row, int64_t count, int64_t first, int64_t chunk, int64_t pitch) {
    for (int64_t m = 0; m < count; ++m) {
      for (int64_t b = 0; b < chunk; ++b) {
        const int64_t k = (first + b) * KW_TERNARY_DEPTH, left = a.k - k;
        const int8_t* from = a.x + (row + m) * a.x_stride + k;
        int8_t padded[KW_TERNARY_DEPTH] = {};
        if (left < KW_TERNARY_DEPTH) {
          memcpy(padded, from, static_cast<size_t>(left));
          from = padded;
        }
        int32_t sum = 0;
        for (int i = 0; i < KW_TERNARY_DEPTH; ++i) sum += from[i];
        of_x[m] += sum;
        spread(from, room + m * pitch + b * kSpreadBytes);
      }
    }
  }

  template <int kM>
  void multiply(int64_t first_group, int64_t groups, int64_t first, int64_t chunk, int64_t pitch) {
    for (int64_t g = 0; g < groups; ++g) {
      const uint8_t* packed = a.packed + ((first_group + g) * blocks + first) * KW_TERNARY_BLOCK;
      multiply_group<kM>(packed, chunk, room, pitch, sums[g][0]);
    }
  }

  // A row's results from a group of 16.
  template <class T>
  void put(int64_t row, const int32_t* sum, int32_t sum_of_x, int64_t column) const {
    const int64_t left = a.n - column, count = left < KW_TERNARY_ROWS ? left : int64_t{KW_TERNARY_ROWS};
    T* to = static_cast<T*>(a.y) + row * a.y_stride + column;
    if constexpr (sizeof(T) == 4) {
      if (a.dtype == KW_INT32) {
        int32_t result[KW_TERNARY_ROWS];
        for (int i = 0; i < KW_TERNARY_ROWS; ++i) result[i] = sum[i] - sum_of_x;
        memcpy(to, result, static_cast<size_t>(count) * 4);
        return;
      }
    }
    const float by_row = a.absmax == nullptr ? 1.0f : a.absmax[row] * (1.0f / 127.0f);
    alignas(64) float value[KW_TERNARY_ROWS];
    alignas(64) float bias[KW_TERNARY_ROWS] = {};
    if (a.bias != nullptr) {
      for (int64_t i = 0; i < count; i += kLanes) {
        const int64_t part = count - i < kLanes ? count - i : kLanes;
        const T* from = static_cast<const T*>(a.bias) + column + i;
        store(bias + i, part == kLanes ? load(from) : load_part(from, part));
      }
    }
    for (int64_t i = 0; i < KW_TERNARY_ROWS; ++i) {
      const float by_column = a.scale == nullptr ? 1.0f : a.scale[a.scales > 1 && i < count ? column + i : 0];
      value[i] = static_cast<float>(sum[i] - sum_of_x) * by_row * by_column + bias[i];
    }
    for (int64_t i = 0; i < count; i += kLanes) {
      const int64_t part = count - i < kLanes ? count - i : kLanes;
      part == kLanes ? store(to + i, load(value + i)) : store_part(to + i, load(value + i), part);
    }
  }

  void put_any(int64_t row, const int32_t* sum, int32_t sum_of_x, int64_t column) const {
    if (a.dtype == KW_FLOAT16) return put<Half>(row, sum, sum_of_x, column);
    if (a.dtype == KW_BFLOAT16) return put<BFloat16>(row, sum, sum_of_x, column);
    put<float>(row, sum, sum_of_x, column);
  }

  template <int kM>
  void tile(int64_t row, int64_t first_group, int64_t groups) {
    memset(sums, 0, sizeof sums);
    memset(of_x, 0, sizeof of_x);
    constexpr int64_t kFit = kRoom / (kM * kSpreadBytes);
    for (int64_t first = 0; first < blocks; first += kFit) {
      const int64_t chunk = blocks - first < kFit ? blocks - first : kFit, pitch = chunk * kSpreadBytes;
      bring(row, kM, first, chunk, pitch);
      multiply<kM>(first_group, groups, first, chunk, pitch);
    }
    for (int64_t g = 0; g < groups; ++g) {
      // multiply_group() has a group's rows of x one after the other.
      for (int m = 0; m < kM; ++m)
        put_any(row + m, sums[g][0] + m * KW_TERNARY_ROWS, of_x[m], (first_group + g) * KW_TERNARY_ROWS);
    }
  }

  template <int kM>
  void rest(int64_t count, int64_t row, int64_t first_group, int64_t groups) {
    if (count == kM) return tile<kM>(row, first_group, groups);
    if constexpr (kM > 1) rest<kM - 1>(count, row, first_group, groups);
  }

  void run(int64_t begin, int64_t end) {
    for (int64_t group = begin; group < end; group += kPieceGroups) {
      const int64_t groups = end - group < kPieceGroups ? end - group : kPieceGroups;
      for (int64_t row = 0; row < a.m; row += kTileRows) {
        rest<kTileRows>(a.m - row < kTileRows ? a.m - row : kTileRows, row, group, groups);
      }
    }
  }
};

}  // namespace

void ternary_groups(const void* context, int64_t begin, int64_t end) {
  Product(*static_cast<const MatmulTernary*>(context)).run(begin, end);
}

}  // namespace KW_ISA

#if KW_CPU_BASELINE
// The copy for AVX-512 needs VNNI, which not all CPUs with AVX-512 have.
static Range copy_to_run() {
#if defined(__x86_64__)
  if (picked_ternary_groups() == &avx512::ternary_groups && !has_vnni()) return &avx2::ternary_groups;
#endif
  return picked_ternary_groups();
}

kw_status ternary_product(const MatmulTernary& args) {
  constexpr int64_t kProducts = 1 << 20;  // fewer take this thread less than another takes to wake up
  const int64_t size = args.dtype == KW_FLOAT16 || args.dtype == KW_BFLOAT16 ? 2 : 4;
  will_write(args.y, args.m, args.y_stride, args.n * size, size);
  parallel_for(ternary::groups_of(args.n), 1 + kProducts / (args.m * (args.k + 1) * KW_TERNARY_ROWS), copy_to_run(),
               &args);
  return KW_OK;
}
#endif

}  // namespace kw::cpu
