// SPDX-License-Identifier: MIT
// Whether every call of a norm's forward pass gets a geometry that a device can run and that does all of each row once.
#include "ops/norm/host/plan.h"

#include "../../../cpp/check.h"

using namespace kw::norm_plan;

// Of a whole GPU, a part of it, one multiprocessor; with clusters but little shared memory; without clusters.
static const struct {
  kw::Device device;
  uint32_t features;
} kDevices[] = {{{0, 90, 132, 2048, 232448, 233472, 60 << 20}, KW_FEATURE_CLUSTER | KW_FEATURE_WGMMA},
                {{0, 90, 14, 2048, 232448, 233472, 7 << 20}, KW_FEATURE_CLUSTER | KW_FEATURE_WGMMA},
                {{0, 90, 1, 2048, 232448, 233472, 1 << 18}, KW_FEATURE_CLUSTER | KW_FEATURE_WGMMA},
                {{0, 120, 20, 1536, 101376, 102400, 24 << 20}, KW_FEATURE_CLUSTER},
                {{0, 75, 16, 1024, 65536, 65536, 4 << 20}, 0}};

// Tensors begin `off` elements after 16 bytes and have `gap` elements between rows.
static kw::Norm norm(int64_t rows, int64_t cols, int32_t dtype, bool centered, bool adds, int64_t off = 0,
                     int64_t gap = 0) {
  const auto place = [](int64_t number, int64_t bytes) { return reinterpret_cast<char*>((number << 48) + bytes); };
  const int64_t bytes = off * kw::size_of(dtype);
  kw::Norm a{};
  a.rows = rows, a.cols = cols, a.dtype = a.weight_dtype = dtype, a.centered = centered;
  a.x = place(1, bytes), a.y = place(2, bytes), a.weight = place(3, 0);
  if (centered) a.bias = place(4, 0);
  if (adds) a.residual = place(5, bytes), a.sum = place(6, bytes);
  a.x_stride = a.y_stride = a.residual_stride = a.sum_stride = cols + gap;
  return a;
}

#define CHECK_PLAN(condition)                                                                                      \
  CHECK(condition, "shape %d: %lld x %lld of type %d%s%s, %lld elements apart, on a device of %d multiprocessors", \
        int{p.shape}, (long long)a.rows, (long long)a.cols, a.dtype, a.centered ? ", centered" : "",               \
        a.residual != nullptr ? ", with a residual" : "", (long long)a.y_stride, device.multiprocessors)

// By elements: each warp or block has a part of the row, of which shared memory holds all, or without clusters some.
static void check_unaligned(const kw::Norm& a, const Plan& p, const kw::Device& device, uint32_t features) {
  const bool clusters = (features & KW_FEATURE_CLUSTER) != 0;
  const int rows = p.row_is_a_warp ? p.threads / kWarp : 1, tensors = a.residual != nullptr ? 2 : 1;
  const int64_t size = kw::size_of(a.dtype), bytes = kw::ratio_up(kVector - size + p.held * size, kVector) * kVector;
  CHECK_PLAN(p.threads <= kw::kUnalignedThreads && p.rows_a_block == rows && p.group == 1);
  CHECK_PLAN((1 << p.cluster_log2) <= (clusters ? kMaxCluster : 1) && (!p.row_is_a_warp || p.cluster_log2 == 0));
  CHECK_PLAN(int64_t{p.part} << p.cluster_log2 >= a.cols && p.held >= 1 && p.held <= p.part);
  CHECK_PLAN(p.held == p.part || !clusters);
  CHECK_PLAN(p.shared >= rows * tensors * bytes && p.shared + kUnalignedScratch <= device.shared_per_block);
}

// Each row is a warp's, a block's or a cluster's, which hold it; without clusters a block may read the rest again.
static void check_held(const kw::Norm& a, const Plan& p, const kw::Device& device, uint32_t features) {
  const bool clusters = (features & KW_FEATURE_CLUSTER) != 0;
  const Room room = room_of(a, p.shape);
  const int64_t units = a.cols * kw::size_of(a.dtype) / kVector;
  const int64_t held = (int64_t{p.row_is_a_warp ? kWarp : p.threads} << p.cluster_log2) * p.slots;
  CHECK_PLAN(p.threads <= room.threads && p.slots >= 1 && p.slots <= room.slots);
  CHECK_PLAN((1 << p.cluster_log2) <= (clusters ? kMaxCluster : 1));
  CHECK_PLAN(held >= units || (!clusters && p.shape != kRow && p.slots == room.slots && !p.row_is_a_warp));
  CHECK_PLAN(p.rows_a_block == (p.row_is_a_warp ? p.threads / kWarp : 1) && p.group == 1);
}

static void check(const kw::Norm& a, const kw::Device& device, uint32_t features) {
  const Plan p = plan_for(a, device, features);
  const Alignment alignment = alignment_of(a);
  const bool measured = (features & KW_FEATURE_WGMMA) != 0, adds = a.residual != nullptr;
  CHECK_PLAN(p.threads >= kWarp && p.threads % kWarp == 0 && p.rows_a_block >= 1);
  CHECK_PLAN(p.group >= 1 && p.group <= kWarp && (p.group & (p.group - 1)) == 0);
  const bool whole = p.shape == kNarrow || p.shape == kRow || p.shape == kLong || p.shape == kStream;
  CHECK_PLAN(whole == alignment.whole);
  CHECK_PLAN(p.shared == 0 || p.shape == kUnaligned);
  if (p.shape == kUnaligned) return check_unaligned(a, p, device, features);
  if (p.shape == kRow || p.shape == kLong) return check_held(a, p, device, features);
  CHECK_PLAN(p.cluster_log2 == 0);
  const int64_t vectors = a.cols * kw::size_of(a.dtype) / kVector;
  if (p.shape == kNarrow) {
    CHECK_PLAN(p.threads <= 64 && vectors <= p.group);
    CHECK_PLAN(p.rows_a_block == p.threads / p.group * kw::kRowSlots);
  } else if (p.shape == kStaged) {
    CHECK_PLAN(alignment.dense && alignment.inputs_alike && a.cols <= kw::kStagedCols &&
               p.threads == kw::kStagedThreads);
    CHECK_PLAN(p.rows_a_block * a.cols * kw::size_of(a.dtype) + kVector <= kStagedBytes);
  } else if (p.shape == kWarpRow) {
    CHECK_PLAN(measured && a.dtype == KW_BFLOAT16 && alignment.halves && a.cols <= kWarp * kw::kWarpRowColumns);
    CHECK_PLAN(p.threads == kw::kWarpRowThreads && p.rows_a_block == p.threads / kWarp * kw::kWarpRows);
  } else {
    CHECK_PLAN(p.shape == kStream && measured && !a.centered && !adds && p.threads <= 1024 && p.rows_a_block == 1);
  }
}

CASE(every_width) {
  for (const auto& on : kDevices) {
    for (int64_t cols = 1; cols <= kw::kMaxCols; cols += cols < 600 ? 1 : cols % 8 == 0 ? 761 : 1) {
      for (const int64_t rows : {int64_t{1}, int64_t{2}, int64_t{271}, int64_t{4096}, int64_t{1} << 30}) {
        for (int call = 0; call < 12; ++call) {
          for (const int64_t off : {0, 1}) {
            for (const int64_t gap : {0, 1, 8}) {
              check(norm(rows, cols, call % 3, call / 3 % 2 != 0, call >= 6, off, gap), on.device, on.features);
            }
          }
        }
      }
    }
  }
}

// A tensor that begins elsewhere than the others, weights that do, rows in the other order.
CASE(every_place) {
  const kw::Device& device = kDevices[0].device;
  for (int64_t cols = 1; cols <= kw::kMaxCols; cols += cols < 600 ? 1 : cols % 8 == 0 ? 249 : 1) {
    for (int call = 0; call < 4; ++call) {
      kw::Norm a = norm(3000, cols, KW_BFLOAT16, call % 2 != 0, call >= 2);
      const auto moved = [&](const void** data) {
        if (*data == nullptr) return;
        const void* before = *data;
        *data = static_cast<const char*>(before) + 2;
        check(a, device, kDevices[0].features);
        *data = before;
      };
      moved(&a.x), moved(&a.residual), moved(&a.weight), moved(&a.bias);
      moved(const_cast<const void**>(&a.y)), moved(const_cast<const void**>(&a.sum));
      a.x_stride = a.y_stride = a.residual_stride = a.sum_stride = -cols;
      check(a, device, kDevices[0].features);
    }
  }
}

// As measured on an H200 (benchmarks/ops/norm/notes).
CASE(measured_rows) {
  constexpr bool kRms = false, kLayer = true;
  const struct {
    int64_t rows, cols;
    int32_t dtype;
    bool centered, adds;
    Shape shape;
    int cluster, slots;
  } kCalls[] = {{16384, 4096, KW_BFLOAT16, kRms, false, kStream, 1, 1},
                {16384, 4096, KW_BFLOAT16, kRms, true, kLong, 1, 2},
                {16384, 4096, KW_BFLOAT16, kLayer, false, kRow, 1, 4},
                {16384, 12288, KW_BFLOAT16, kLayer, false, kLong, 1, 8},
                {16384, 12288, KW_BFLOAT16, kRms, true, kLong, 1, 4},
                {4096, 28672, KW_BFLOAT16, kRms, false, kStream, 1, 1},
                {1, 4096, KW_BFLOAT16, kRms, false, kRow, 2, 1},
                {1342177, 100, KW_BFLOAT16, kRms, false, kWarpRow, 1, 1},
                {1342177, 100, KW_FLOAT16, kRms, true, kStaged, 1, 1},
                {2670, 50257, KW_BFLOAT16, kLayer, false, kUnaligned, 2, 1}};
  for (const auto& call : kCalls) {
    const Plan p = plan_for(norm(call.rows, call.cols, call.dtype, call.centered, call.adds), kDevices[0].device,
                            kDevices[0].features);
    CHECK(p.shape == call.shape && 1 << p.cluster_log2 == call.cluster && p.slots == call.slots,
          "%lld x %lld of type %d%s%s: shape %d, clusters of %d, %d a thread", (long long)call.rows,
          (long long)call.cols, call.dtype, call.centered ? ", centered" : "", call.adds ? ", with a residual" : "",
          int{p.shape}, 1 << p.cluster_log2, p.slots);
  }
}

RUN_CASES()
