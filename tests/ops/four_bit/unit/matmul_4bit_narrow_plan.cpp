// SPDX-License-Identifier: MIT
// Whether every shape that the kernels by warpgroups take gets a geometry that a device can run and that does each
// product once.
#include "ops/four_bit/host/matmul_narrow_plan.h"

#include "../../../cpp/check.h"

using namespace kw::matmul_4bit_plan;

constexpr uint32_t kFeatures = KW_FEATURE_WGMMA | KW_FEATURE_TMA | KW_FEATURE_CLUSTER;

// A whole GPU, one of few multiprocessors, and one that has no room for a cluster.
static const kw::Device kDevices[] = {{0, 90, 132, 2048, 232448, 233472, 60 << 20},
                                      {0, 90, 20, 2048, 232448, 233472, 24 << 20},
                                      {0, 90, 1, 2048, 232448, 233472, 1 << 20}};

static kw::Matmul4bit product(int64_t m, int64_t n, int64_t k, int32_t blocksize = 64, int32_t dtype = KW_BFLOAT16) {
  kw::Matmul4bit a{};
  a.m = m, a.n = n, a.k = k, a.blocksize = blocksize, a.dtype = dtype;
  return a;
}

static bool takes(const kw::Matmul4bit& a, uint32_t features = kFeatures) {
  return takes_narrow(a, kDevices[0], features);
}

static void check(const kw::Device& device, int64_t m, int64_t n, int64_t k) {
  const kw::Matmul4bit a = product(m, n, k);
  const Narrow p = plan_narrow(a, device);
  const int64_t cols = kNarrowCols[p.kind];
#define CHECK_PLAN(condition)                                                                              \
  CHECK(condition, "m %lld, n %lld, k %lld on a device of %d multiprocessors", (long long)m, (long long)n, \
        (long long)k, device.multiprocessors)
  CHECK_PLAN(p.groups * cols >= m && (p.groups - 1) * cols < m);
  const int64_t rows = p.sides == 2 ? kw::kSidesRows : kw::kNarrowRows, cluster = p.split * p.sides;
  CHECK_PLAN(p.grid == kw::ratio_up(n, rows) * p.groups * cluster * p.pieces && p.grid <= kw::kMaxBlocks);
  CHECK_PLAN(p.split >= 1 && (p.sides == 1 || p.sides == 2) && cluster <= 8);
  CHECK_PLAN(p.split * p.pieces <= kw::ratio_up(k, kNarrowStep));  // no block without a step
  CHECK_PLAN(p.pieces >= 1 && p.pieces <= kMostPieces && p.sums == (p.pieces > 1 ? p.pieces * m * n * kNarrowSum : 0));
  CHECK_PLAN(p.pieces == 1 || p.grid <= device.multiprocessors);  // all at once
  CHECK_PLAN(cluster <= device.multiprocessors);
  // The table, stages of x of 256 of k or 128, each warp's three steps of codes, barriers: of x, of sums, of these
  // steps.
  const int64_t stage = (cols <= 16 ? 256 : 128) * cols * 2, codes = 16 * 3 * (16 * 256 / 2);
  CHECK_PLAN(p.shared == 256 * 256 + 1023 + 1 + 4 * stage + codes + (9 + 16 * 3) * 8 &&
             p.shared <= device.shared_per_block);
  CHECK_PLAN(narrow_workspace(a, device) >= p.groups * cols * k * 2 + p.sums);
}

CASE(every_shape) {
  for (const auto& device : kDevices) {
    for (int64_t m = 1; m <= 5000; m += m < 300 ? 1 : 97) {
      for (const int64_t n : {1, 255, 256, 257, 3584, 4096, 11008, 28672, 128256}) {
        for (const int64_t k : {64, 192, 256, 320, 4096, 18944, 28672}) {
          if (can_narrow(product(m, n, k), kFeatures)) check(device, m, n, k);
        }
      }
    }
  }
}

CASE(what_they_take) {
  CHECK(takes(product(17, 4096, 4096)), "17 rows");
  CHECK(!takes(product(16, 4096, 4096)), "16 rows are for other kernels");
  CHECK(takes(product(16, 28672, 8192)), "16 rows and a large weight");
  CHECK(takes(product(5, 13824, 5120)), "5 rows and a depth that the other kernels' warps cannot share evenly");
  CHECK(takes(product(1, 5, 64)), "a depth that the other kernels do not take");
  CHECK(!takes(product(1, 28672, 8192)), "one row is for other kernels");
  CHECK(!takes(product(17, 4096, 4096 + 32)), "half a slice");
  CHECK(!takes(product(17, 4096, 4096, 32)), "two scales in a slice");
  CHECK(!takes(product(17, 4096, 4096, 64, KW_FLOAT32)), "float32");
  CHECK(!takes(product(17, 4096, 4096), kFeatures & ~KW_FEATURE_WGMMA), "a code without wgmma");
  CHECK(!takes(product(int64_t{1} << 25, int64_t{1} << 30, 64)), "more blocks than a launch has");
}

// What an H200 took, in microseconds, by the kernels for few rows of x and by these
// (benchmarks/ops/four_bit/notes/matmul_4bit-choice-notes.md).
CASE(the_faster) {
  const struct {
    int64_t m, n, k;
    double few, narrow;
  } kTook[] = {{3, 2048, 8192, 11.63, 9.69},   {4, 1280, 8192, 11.56, 7.84},   {8, 5120, 5120, 16.74, 10.87},
               {16, 5120, 5120, 29.25, 12.01}, {16, 2560, 6912, 14.79, 11.0},  {9, 6912, 2560, 17.80, 10.62},
               {4, 8192, 8192, 18.54, 16.03},  {8, 14336, 4096, 17.91, 15.32}, {2, 5120, 13824, 21.32, 18.52},
               {2, 3584, 18944, 19.30, 17.32}, {2, 5120, 27648, 37.50, 28.13}, {4, 4096, 4096, 7.69, 9.67},
               {8, 4096, 4096, 8.06, 9.80},    {16, 4096, 4096, 9.66, 10.71},  {4, 6912, 2560, 8.11, 9.72},
               {4, 11008, 4096, 12.10, 14.06}, {4, 14336, 4096, 14.28, 15.27}, {9, 8192, 2048, 9.55, 10.11},
               {2, 4096, 4096, 6.06, 9.62},    {2, 8192, 8192, 13.44, 15.93},  {2, 8192, 28672, 38.87, 41.19},
               {2, 2048, 8192, 7.43, 9.59},    {8, 7168, 2048, 7.82, 8.79},    {9, 9216, 2304, 14.59, 11.48},
               {3, 24576, 3072, 19.48, 18.20}};
  for (const auto& took : kTook) {
    CHECK(takes(product(took.m, took.n, took.k)) == (took.narrow < took.few), "m %lld, n %lld, k %lld",
          (long long)took.m, (long long)took.n, (long long)took.k);
  }
}

// As measured there (benchmarks/ops/four_bit/notes/matmul_4bit-narrow-notes.md).
CASE(pieces_of_k) {
  const struct {
    int64_t m, n, k, pieces, split;
    const char* why;
  } kShapes[] = {{8, 8192, 28672, 2, 2, "32 tiles, and no room for 32 clusters of 4"},
                 {64, 8192, 28672, 2, 2, "the same with the most columns"},
                 {8, 4096, 14336, 4, 2, "16 tiles"},
                 {8, 28672, 8192, 1, 1, "side by side its tiles are enough"},
                 {32, 5120, 13824, 1, 5, "the kernel that adds up would take what pieces gain"},
                 {64, 4096, 4096, 1, 4, "too few steps"}};
  for (const auto& shape : kShapes) {
    const Narrow p = plan_narrow(product(shape.m, shape.n, shape.k), kDevices[0]);
    CHECK(p.pieces == shape.pieces && p.split == shape.split,
          "m %lld, n %lld, k %lld: %s, but %lld pieces of %lld blocks", (long long)shape.m, (long long)shape.n,
          (long long)shape.k, shape.why, (long long)p.pieces, (long long)p.split);
  }
}

RUN_CASES()
