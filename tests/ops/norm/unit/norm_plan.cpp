// SPDX-License-Identifier: MIT
// Whether every call of a norm's forward pass gets a geometry that a device can run and that does all of each row once.
#include "ops/norm/host/plan.h"

#include <string.h>

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

// As walk.cuh has it: every row is one cluster's, and all rows of a cluster have the same alignment.
static bool walks_each_row_once(const kw::Norm& a, const Plan& p) {
  static unsigned char done[4096];
  memset(done, 0, sizeof done);
  for (int64_t cluster = 0; cluster < p.clusters; ++cluster) {
    const int64_t phase = cluster % p.group, step = p.group * (p.clusters / p.group + (phase < p.clusters % p.group));
    if (step * a.y_stride * kw::size_of(a.dtype) % kVector != 0) return false;
    for (int64_t row = cluster; row < a.rows; row += step) {
      if (done[row]++ != 0) return false;
    }
  }
  return memchr(done, 0, static_cast<size_t>(a.rows)) == nullptr;
}

static void check_walk(const kw::Norm& a, const Plan& p, const kw::Device& device, uint32_t features) {
  constexpr int kPart = 16;  // bytes that a warp knows of a row
  constexpr int kScratch = 2 * (kWalkWarps * kPart + 8) + 2 * kWarp * 4;
  const Alignment alignment = alignment_of(a);
  const int64_t row_bytes = a.cols * kw::size_of(a.dtype);
  CHECK_PLAN((features & KW_FEATURE_WGMMA) != 0 && alignment.alike);
  for (const void* weights : {a.weight, a.bias}) {
    CHECK_PLAN(weights == nullptr || a.weight_dtype == a.dtype);
    CHECK_PLAN(reinterpret_cast<uintptr_t>(weights) % kVector == 0 || row_bytes % kVector != 0);
  }
  CHECK_PLAN(p.shape == (a.residual != nullptr ? kWalkAdd : p.shape == kWalkFive ? kWalkFive : kWalk));
  CHECK_PLAN(a.rows < int64_t{1} << 30 && (p.shape != kWalkFive || a.centered));
  CHECK_PLAN(p.cluster_log2 >= 1);  // its blocks write into each other's memory
  CHECK_PLAN(p.threads << p.cluster_log2 <= kWalkWarps * kWarp);
  CHECK_PLAN(p.shared == int64_t{p.threads} * p.slots * kVector * (a.centered ? 2 : 1));
  CHECK_PLAN(p.shared + kScratch <= device.shared_per_block && kScratch <= kWalkScratch);
  CHECK_PLAN(p.clusters >= 1 && p.clusters <= a.rows);
  if (a.rows <= 4096) CHECK_PLAN(walks_each_row_once(a, p));
}

static bool held_in_registers(Shape shape) { return shape < kNarrow || (shape >= kLong && shape != kThin); }

// As the kernels' templates have it.
static int most_slots(Shape shape) {
  if (shape == kWalkAdd || shape == kWalkFive) return 5;
  return shape == kWalk || shape == kLong || shape == kLongShifted ? kLongSlots : kSlots;
}

static void check(const kw::Norm& a, const kw::Device& device, uint32_t features) {
  const Plan p = plan_for(a, device, features);
  const int64_t units = a.cols * kw::size_of(a.dtype) / kVector;
  const bool shifted = p.shape == kShifted || p.shape == kShiftedAdd || p.shape == kLongShifted;
  const int64_t whole = shifted ? units - 2 : units;  // what is left of a row are its edges
  CHECK_PLAN(p.threads >= kWarp && p.threads % kWarp == 0 && p.threads <= kMaxThreads[a.centered][p.shape]);
  CHECK_PLAN((1 << p.cluster_log2) <= ((features & KW_FEATURE_CLUSTER) != 0 ? kMaxCluster : 1));
  CHECK_PLAN(p.rows_a_block >= 1 && p.group >= 1 && p.slots >= 1);
  CHECK_PLAN(kw::size_of(a.dtype) == 2 ||
             (p.shape != kThin && p.shape != kPair && p.shape != kWalkAdd && p.shape != kWalkFive));
  CHECK_PLAN(p.shape >= kWalk || (p.clusters == 0 && p.shared == 0));
  if (p.shape >= kWalk) check_walk(a, p, device, features);
  if (held_in_registers(p.shape)) {
    const int64_t threads = int64_t{p.row_is_a_warp ? kWarp : p.threads} << p.cluster_log2;
    CHECK_PLAN(threads * p.slots >= whole && p.slots <= most_slots(p.shape));
    CHECK_PLAN(p.rows_a_block == (p.row_is_a_warp ? p.threads / kWarp : p.shape == kPair ? kPairRows : 1));
  } else {
    CHECK_PLAN(p.cluster_log2 == 0 && p.group <= kWarp);
  }
}

CASE(every_width) {
  for (const auto& on : kDevices) {
    for (int64_t cols = 1; cols <= kw::kMaxCols; cols += cols < 600 ? 1 : cols % 8 == 0 ? 761 : 1) {
      for (const int64_t rows : {int64_t{1}, int64_t{2}, int64_t{271}, int64_t{4096}, int64_t{1} << 30}) {
        for (int call = 0; call < 12; ++call) {
          const int32_t dtype = call % 3;
          for (const int64_t off : {0, 1}) {
            for (const int64_t gap : {0, 1, 8}) {
              check(norm(rows, cols, dtype, call / 3 % 2 != 0, call >= 6, off, gap), on.device, on.features);
            }
          }
        }
      }
    }
  }
}

// On addresses that rows of 16-bit types have; where weights lie otherwise, or are of another type, few kernels are
// left.
CASE(every_weight) {
  const kw::Device& device = kDevices[0].device;
  for (int64_t cols = 1; cols <= kw::kMaxCols; cols += cols < 600 ? 1 : cols % 8 == 0 ? 249 : 1) {
    for (int call = 0; call < 8; ++call) {
      for (const int64_t gap : {0, 1, -1}) {
        kw::Norm a = norm(3000, cols, KW_BFLOAT16, call % 2 != 0, call >= 4, call / 2 % 2, gap < 0 ? 0 : gap);
        if (gap < 0) a.x_stride = a.y_stride = a.residual_stride = a.sum_stride = -cols;
        check(a, device, kDevices[0].features);
        const auto with = [&](const void* weight, const void* bias, int32_t dtype) {
          a.weight = weight, a.bias = a.centered ? bias : nullptr, a.weight_dtype = dtype;
          check(a, device, kDevices[0].features);
        };
        const char* place = reinterpret_cast<const char*>(int64_t{7} << 48);
        with(nullptr, nullptr, KW_FLOAT32);
        with(place, place, KW_FLOAT32);
        with(place + 2, place, KW_BFLOAT16);
        with(place, place + 2, KW_BFLOAT16);
        with(nullptr, place, KW_FLOAT32);
        a.y_stride += a.y_stride < 0 ? -1 : 1;
        with(place, place, KW_BFLOAT16);
      }
    }
  }
}

// As measured on an H200 (benchmarks/results/{rms,layer}_norm-notes.md).
CASE(which_rows_are_walked_over) {
  constexpr bool kRms = false, kLayer = true;
  const struct {
    int64_t rows, cols;
    int32_t dtype;
    bool centered, adds;
    Shape shape;
    int cluster;
    int64_t clusters;
  } kCalls[] = {{2670, 50257, KW_BFLOAT16, kRms, false, kWalk, 4, 888},
                {2670, 50257, KW_BFLOAT16, kRms, true, kWalkAdd, 8, 888},
                {2670, 50257, KW_FLOAT32, kRms, false, kWalk, 4, 888},
                {300, 50257, KW_BFLOAT16, kRms, false, kWalk, 4, 96},
                {200, 50257, KW_BFLOAT16, kRms, false, kLongShifted, 2, 0},
                {5000, 27001, KW_BFLOAT16, kRms, false, kLongShifted, 1, 0},
                {5000, 27001, KW_BFLOAT16, kRms, true, kWalkAdd, 4, 1664},
                {16384, 12288, KW_BFLOAT16, kRms, true, kRowAdd, 1, 0},
                {2670, 50257, KW_BFLOAT16, kLayer, false, kWalkFive, 8, 88},
                {4000, 40001, KW_BFLOAT16, kLayer, false, kWalk, 2, 128},
                {4000, 33001, KW_BFLOAT16, kLayer, false, kWalk, 4, 144},
                {2048, 65536, KW_BFLOAT16, kLayer, false, kWalk, 8, 90},
                {4096, 20001, KW_BFLOAT16, kLayer, false, kLongShifted, 1, 0},
                {4096, 20001, KW_BFLOAT16, kLayer, true, kWalkAdd, 4, 1360},
                {4096, 32768, KW_FLOAT32, kLayer, false, kWalk, 4, 90},
                {2670, 50257, KW_FLOAT32, kLayer, false, kWalk, 8, 44}};
  for (const auto& call : kCalls) {
    const Plan p = plan_for(norm(call.rows, call.cols, call.dtype, call.centered, call.adds), kDevices[0].device,
                            kDevices[0].features);
    CHECK(p.shape == call.shape && 1 << p.cluster_log2 == call.cluster && p.clusters == call.clusters,
          "%lld x %lld of type %d%s%s: shape %d, clusters of %d, of which %lld stay", (long long)call.rows,
          (long long)call.cols, call.dtype, call.centered ? ", centered" : "", call.adds ? ", with a residual" : "",
          int{p.shape}, 1 << p.cluster_log2, (long long)p.clusters);
  }
}

RUN_CASES()
