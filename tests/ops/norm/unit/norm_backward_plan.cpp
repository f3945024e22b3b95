// SPDX-License-Identifier: MIT
// Whether every shape of a norm's derivatives gets a geometry that a device can run and that does each row once.
#include "ops/norm/host/backward_plan.h"

#include "../../../cpp/check.h"
#include "ops/norm/host/backward_plan.h"

using namespace kw::norm_backward_plan;

// A large and a small GPU, with clusters and without: multiprocessors, threads, shared memory of a block and of a
// multiprocessor, L2.
static const struct {
  kw::Device device;
  uint32_t features;
} kDevices[] = {{{0, 90, 132, 2048, 232448, 233472, 60 << 20}, KW_FEATURE_CLUSTER | KW_FEATURE_WGMMA},
                {{0, 90, 20, 1536, 101376, 102400, 24 << 20}, KW_FEATURE_CLUSTER},
                {{0, 80, 108, 2048, 166912, 167936, 40 << 20}, 0},
                {{0, 75, 16, 1024, 65536, 65536, 4 << 20}, 0}};

// As the kernels have it: columns of a thread, and the shared memory of a warp.
static int columns_of(Kind kind) { return kind == kWide ? 32 : 16; }

static int64_t shared_of_warp(const Shape& s, const Plan& p) {
  const int64_t columns = kWarp * columns_of(p.kind);
  const int64_t row = columns * s.size + (p.kind == kUnaligned ? kWarp / p.group * kVector : 0);
  const int rows = (p.kind == kLate ? 4 : 3) * 2 + (p.kind == kUnaligned && s.adds ? 1 : 0);
  return rows * row + columns * (p.kind == kWide ? 2 : 4);
}

static void check(const Shape& s, const kw::Device& device, uint32_t features) {
  const Plan p = plan_for(s, device, features);
  const int warps = p.teams * p.team_warps;
#define CHECK_PLAN(condition)                                                                             \
  CHECK(condition, "%lld x %lld of %d bytes, %s%s, on a device of %d multiprocessors", (long long)s.rows, \
        (long long)s.cols, s.size, s.aligned ? "aligned" : "unaligned", s.centered ? ", centered" : "",   \
        device.multiprocessors)
  CHECK_PLAN(p.team_warps <= kw::kTeamWarps && p.teams >= 1 && warps <= most_warps(s, features != 0));
  CHECK_PLAN(p.team_warps == 1 || p.teams < 16);  // each has a barrier of its own
  CHECK_PLAN(p.shared + kScratch <= device.shared_per_block && p.shared == warps * shared_of_warp(s, p));
  CHECK_PLAN(!p.cluster || (features != 0 && p.parts <= kw::kClusterParts));
  CHECK_PLAN(p.cluster || p.parts == 1 || features == 0 || p.kind == kUnaligned);
  CHECK_PLAN(s.aligned || p.kind == kUnaligned);
  CHECK_PLAN(p.kind != kWide || (s.plain && s.centered && p.cluster && p.group == kWarp && warps <= 16));
  CHECK_PLAN(p.kind != kLate || (s.adds && !s.centered && p.cluster && s.size == 2));
  CHECK_PLAN(!p.cluster || p.teams <= (p.kind == kWide ? kw::kWideTeams : 1));
  CHECK_PLAN(p.parts == 1 || p.group == kWarp);
  // Every column, and every row once; no block without any.
  CHECK_PLAN(int64_t{p.parts} * p.team_warps * p.group * columns_of(p.kind) >= s.cols);
  CHECK_PLAN(p.partials >= 1 && p.rows_a_turn == p.partials * p.teams * (kWarp / p.group));
  CHECK_PLAN((p.partials - 1) * p.teams * (kWarp / p.group) < s.rows);
  const int64_t bytes = workspace_bytes(s.rows, s.cols, s.centered, device, features);
  CHECK_PLAN(p.partials == 1 || bytes >= p.partials * s.cols * 4 * (s.centered ? 2 : 1));
}

CASE(every_width) {
  for (const auto& on : kDevices) {
    for (int64_t cols = 1; cols <= 65536; cols += cols < 1100 ? 1 : 173) {
      for (const int64_t rows : {int64_t{1}, int64_t{100}, int64_t{4000}, int64_t{1} << 40}) {
        for (int which = 0; which < 16; ++which) {
          const int size = which % 2 != 0 ? 2 : 4;
          const bool centered = which / 2 % 2 != 0, adds = which / 4 % 2 != 0, plain = size == 2 && which >= 8;
          check({rows, cols, size, false, centered, adds, plain}, on.device, on.features);
          if (cols * size % kVector == 0)
            check({rows, cols, size, true, centered, adds, plain}, on.device, on.features);
        }
      }
    }
    check({3, 65536, 4, true, true}, on.device, on.features);
  }
}

// What of a call decides which kernel is for it.
CASE(types_and_weights) {
  const char* place = reinterpret_cast<const char*>(int64_t{1} << 48);
  for (const bool centered : {false, true}) {
    for (const int64_t cols : {12288, 12289}) {
      kw::NormBackward a{};
      a.dx = const_cast<char*>(place), a.dy = a.h = place;
      a.dx_stride = a.dy_stride = a.h_stride = a.dsum_stride = a.cols = cols;
      a.rows = 4096, a.centered = centered;
      const auto kind = [&](int32_t dtype, const void* weight, int32_t weight_dtype, const void* dsum) {
        a.dtype = dtype, a.weight = weight, a.weight_dtype = weight_dtype, a.dsum = dsum;
        return plan_for(a, kDevices[0].device, kDevices[0].features).kind;
      };
      const bool aligned = cols % 8 == 0;
      const Kind plain = !aligned ? kUnaligned : centered ? kWide : kAligned;
      const Kind other = !aligned ? kUnaligned : kAligned;
      const Kind adding = !aligned ? kUnaligned : centered ? kWide : kLate;
      for (const int32_t dtype : {KW_BFLOAT16, KW_FLOAT16}) {
        CHECK(kind(dtype, place, dtype, nullptr) == plain, "%lld columns of type %d", (long long)cols, dtype);
        CHECK(kind(dtype, nullptr, KW_FLOAT32, nullptr) == plain, "%lld columns without weights", (long long)cols);
        CHECK(kind(dtype, place, KW_FLOAT32, nullptr) == other, "%lld columns, float32 weights", (long long)cols);
        CHECK(kind(dtype, place, dtype, place) == adding, "%lld columns and dsum", (long long)cols);
      }
      CHECK(kind(KW_FLOAT32, place, KW_FLOAT32, place) == other, "%lld columns of float32", (long long)cols);
    }
  }
}

// A multiprocessor has two wide rows or more, at different points. Blocks are no more than there is room for.
CASE(wide_rows) {
  constexpr int kReserved = 1 << 10;  // bytes of shared memory that a block has besides
  const kw::Device& device = kDevices[0].device;
  for (int64_t cols = 8200; cols <= 65536 - 8; cols += 8) {
    for (const bool adds : {false, true}) {
      const Plan p = plan_for(Shape{1 << 20, cols, 2, true, true, adds, true}, device, kDevices[0].features);
      const int room = device.shared_per_multiprocessor / (p.shared + (2 << 10) + kReserved);
      const int64_t blocks = p.partials * p.parts, usable = device.multiprocessors * 15 / 16;
      CHECK(p.kind == kWide && p.team_warps <= 8 && p.teams >= 2, "%lld columns: kind %d, %d teams of %d warps",
            (long long)cols, p.kind, p.teams, p.team_warps);
      CHECK(blocks * p.teams > 2 * usable - p.parts * p.teams && blocks <= int64_t{room} * device.multiprocessors,
            "%lld columns: %lld blocks of %d parts and %d teams, of which a multiprocessor has room for %d",
            (long long)cols, (long long)blocks, p.parts, p.teams, room);
    }
  }
}

// The second pass: every column, whole warps of eight and more, and shared memory that needs no asking for.
CASE(reduction) {
  for (const auto& on : kDevices) {
    for (int64_t cols = 1; cols <= 65536; cols += cols < 1100 ? 1 : 173) {
      for (const int64_t partials : {0, 1, 30, 132, 4000}) {
        for (const bool centered : {false, true}) {
          const Reduction f = reduction_for(cols, partials, centered, on.device);
          CHECK(f.count == (cols % 4 == 0 ? 4 : 1) && f.blocks * f.width * f.count >= cols &&
                    (f.blocks - 1) * f.width * f.count < cols,
                "%lld columns: %lld blocks of %d times %d", (long long)cols, (long long)f.blocks, f.width, f.count);
          CHECK((f.width & (f.width - 1)) == 0 && f.width <= kWarp && f.width * f.count >= 8,
                "%lld columns: %d times %d side by side", (long long)cols, f.width, f.count);
          CHECK(f.threads % 256 == 0 && f.threads <= 1024 && f.width * f.count <= f.threads &&
                    f.shared == f.threads / 32 * f.width * f.count * 4 && f.shared <= 48 << 10,
                "%lld columns: %d threads, %d bytes", (long long)cols, f.threads, f.shared);
        }
      }
    }
  }
}

// Few rows: a unit of columns is one thread's, and so is each row of a block's columns.
CASE(few_rows) {
  namespace few = kw::norm_few_rows;
  kw::NormBackward a{};
  for (const auto& on : kDevices) {
    for (a.cols = few::kFewestCols; a.cols <= 16384; a.cols += 8) {
      for (a.rows = 1; a.rows <= few::kMostRows; a.rows += a.rows < 5 ? 1 : 97) {
        a.dtype = a.cols % 16 == 0 ? KW_BFLOAT16 : KW_FLOAT32;
        a.dx_stride = a.dy_stride = a.h_stride = a.cols;
        const int64_t units = a.cols * kw::size_of(a.dtype) / kVector;
        const uint32_t threads = few::row_threads(a, on.device), lanes = few::columns_lanes(units, on.device);
        const uint32_t beside = few::columns_threads(a.rows, lanes);
        CHECK(!few::suits(a, on.device, 0), "%lld x %lld", (long long)a.rows, (long long)a.cols);
        if (!few::suits(a, on.device, KW_FEATURE_PDL)) continue;
        CHECK(threads % kWarp == 0 && threads <= kw::kFewThreads && threads * kw::kFewSlots >= units,
              "%u threads for %lld units", threads, (long long)units);
        // The last step of a block's sums is a column a thread, of two sums.
        CHECK(beside % kWarp == 0 && beside <= kw::kFewColumnsThreads &&
                  lanes * kVector / kw::size_of(a.dtype) * 2 <= beside,
              "%u threads for %u units of columns", beside, lanes);
      }
    }
  }
}

RUN_CASES()
