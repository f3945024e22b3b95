// SPDX-License-Identifier: MIT
// Whether every shape that the kernels by warpgroups take gets a geometry that a device can run and that does each
// product once.
#include "ops/matmul_4bit_panel_plan.h"

#include "../check.h"

using namespace kw::matmul_4bit_plan;

constexpr uint32_t kFeatures = KW_FEATURE_WGMMA | KW_FEATURE_TMA | KW_FEATURE_CLUSTER;

// A whole GPU, one of few multiprocessors, and one that has no room for a cluster.
static const kw::Device kDevices[] = {{0, 90, 132, 2048, 232448, 233472, 60 << 20},
                                      {0, 90, 20, 2048, 232448, 233472, 24 << 20},
                                      {0, 90, 1, 2048, 232448, 233472, 1 << 20}};

static void check(const kw::Device& device, int64_t m, int64_t n, int64_t k) {
  kw::Matmul4bit a{};
  a.m = m, a.n = n, a.k = k, a.blocksize = 64, a.dtype = KW_BFLOAT16;
  const Panel p = plan_panel(a, device);
  const int64_t cols = kPanelCols[p.kind];
#define CHECK_PLAN(condition)                                                                              \
  CHECK(condition, "m %lld, n %lld, k %lld on a device of %d multiprocessors", (long long)m, (long long)n, \
        (long long)k, device.multiprocessors)
  CHECK_PLAN(p.groups * cols >= m && (p.groups - 1) * cols < m);
  CHECK_PLAN(p.grid == kw::ratio_up(n, kPanelRows) * p.groups * p.split && p.grid <= kw::kMaxBlocks);
  CHECK_PLAN(p.split >= 1 && p.split <= kMostSplit);
  CHECK_PLAN(p.split <= kw::ratio_up(k, kPanelStep));  // no block without a step
  CHECK_PLAN(p.split <= device.multiprocessors);
  CHECK_PLAN(p.shared <= device.shared_per_block);
  CHECK_PLAN(panel_workspace(m, k) >= p.groups * cols * k * 2);
}

CASE(every_shape) {
  for (const auto& device : kDevices) {
    for (int64_t m = 9; m <= 5000; m += m < 300 ? 1 : 97) {
      for (const int64_t n : {1, 255, 256, 257, 3584, 4096, 11008, 28672, 128256}) {
        for (const int64_t k : {64, 192, 256, 320, 4096, 18944, 28672}) {
          if (has_panel(m, n, k, 64, KW_BFLOAT16, kFeatures)) check(device, m, n, k);
        }
      }
    }
  }
}

CASE(what_they_do_not_take) {
  CHECK(has_panel(17, 4096, 4096, 64, KW_FLOAT16, kFeatures), "17 rows");
  CHECK(!has_panel(16, 4096, 4096, 64, KW_FLOAT16, kFeatures), "16 rows are for other kernels");
  CHECK(has_panel(9, 8192, 4096, 64, KW_FLOAT16, kFeatures), "9 rows and a large weight");
  CHECK(!has_panel(9, 8191, 4096, 64, KW_FLOAT16, kFeatures), "9 rows and a smaller weight");
  CHECK(!has_panel(8, 28672, 8192, 64, KW_FLOAT16, kFeatures), "8 rows are for other kernels");
  CHECK(!has_panel(17, 4096, 4096 + 32, 64, KW_FLOAT16, kFeatures), "half a slice");
  CHECK(!has_panel(17, 4096, 4096, 32, KW_FLOAT16, kFeatures), "two scales in a slice");
  CHECK(!has_panel(17, 4096, 4096, 64, KW_FLOAT32, kFeatures), "float32");
  CHECK(!has_panel(17, 4096, 4096, 64, KW_FLOAT16, kFeatures & ~KW_FEATURE_WGMMA), "a code without wgmma");
  CHECK(!has_panel(int64_t{1} << 25, int64_t{1} << 30, 64, 64, KW_FLOAT16, kFeatures), "more blocks than a launch has");
}

RUN_CASES()
