// SPDX-License-Identifier: MIT
// Whether the kernels for few rows of x get a geometry that a device can run, in which each block has units and each
// unit one block.
#include "ops/four_bit/host/matmul_gemv_plan.h"

#include "../../../cpp/check.h"

using namespace kw::matmul_4bit_plan;

// A whole GPU, one of few multiprocessors, and one with room for a block alone.
static const kw::Device kDevices[] = {{0, 90, 132, 2048, 232448, 233472, 60 << 20},
                                      {0, 90, 2, 2048, 232448, 233472, 1 << 20},
                                      {0, 86, 84, 1536, 101376, 102400, 6 << 20}};

static Rows plan(const kw::Device& device, int64_t m, int64_t n, int64_t k) {
  kw::Matmul4bit a{};
  a.m = m, a.n = n, a.k = k, a.blocksize = 64, a.dtype = KW_BFLOAT16;
  return plan_gemv(a, device);
}

CASE(every_shape) {
  for (const auto& device : kDevices) {
    for (int64_t m = 1; m <= kGemvMost; ++m) {
      for (int64_t n = 1; n <= 30000; n += n < 3000 ? 1 : 997) {
        for (const int64_t k : {128, 4096, 28672}) {
          const Rows p = plan(device, m, n, k);
          CHECK(kGemvKinds[p.kind].cols >= m && p.grid >= 1 && p.grid <= p.units && p.group >= 1 &&
                    p.shared <= device.shared_per_block,
                "m %lld, n %lld, k %lld on a device of %d multiprocessors", (long long)m, (long long)n, (long long)k,
                device.multiprocessors);
        }
      }
    }
  }
}

// With one row of x a unit is 4 rows of the weight, with two 8, and a warp works on two units whether the second is
// there or not.
CASE(blocks_of_one_row) {
  CHECK(plan(kDevices[0], 1, 400, 4096).grid == 100, "100 units are 100 blocks'");
  CHECK(plan(kDevices[0], 1, 600, 4096).grid == 132, "150 units leave no multiprocessor idle");
  CHECK(plan(kDevices[0], 1, 1600, 4096).grid == 200, "400 units are two a block");
  CHECK(plan(kDevices[0], 1, 4096, 4096).grid == 264, "1024 units, and two blocks a multiprocessor");
  CHECK(plan(kDevices[0], 2, 2048, 8192).grid == 132, "256 units leave no multiprocessor idle, or are two a block");
  CHECK(plan(kDevices[0], 2, 2560, 4096).grid == 160, "320 units of two rows of x are two a block");
  CHECK(plan(kDevices[0], 4, 2560, 4096).grid == 160, "160 units of four rows of x are a block's each");
}

// A warp works on two units while two others are on their way. On an H200 4096 x 11008 took 9.8 µs with one row of x
// where each warp has four of three steps, and 19.0 where it has one of eleven.
CASE(units_of_a_warp) {
  struct {
    int64_t m, n, k;
    int k_warps_log2;
  } const shapes[] = {{1, 4096, 4096, 3},  {1, 4096, 11008, 3}, {1, 3584, 18944, 3}, {1, 4096, 14336, 3},
                      {1, 5120, 13824, 2}, {1, 8192, 22016, 2}, {1, 8192, 28672, 2}, {1, 28672, 8192, 3},
                      {2, 4096, 14336, 3}, {2, 8192, 22016, 3}, {2, 14336, 4096, 2}, {1, 16384, 4096, 3},
                      {4, 4096, 11008, 3}};
  for (const auto& s : shapes) {
    CHECK(plan(kDevices[0], s.m, s.n, s.k).k_warps_log2 == s.k_warps_log2, "m %lld, n %lld, k %lld", (long long)s.m,
          (long long)s.n, (long long)s.k);
  }
}

RUN_CASES()
