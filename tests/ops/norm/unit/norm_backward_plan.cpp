// SPDX-License-Identifier: MIT
// Whether every shape of a norm's derivatives gets a geometry that a device can run and that does each row once.
#include "ops/norm/host/backward_plan.h"

#include "../../../cpp/check.h"
#include "ops/norm/host/backward_few.h"
#include "ops/norm/host/backward_finish_plan.h"

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
static int columns_of(Kind kind) { return kind == kWide || kind == kPhasedWide ? 32 : 16; }

static int64_t shared_of_warp(const Shape& s, const Plan& p) {
  const bool wide = columns_of(p.kind) == 32, apart = p.kind == kShifted;
  const int64_t columns = kWarp * columns_of(p.kind), row = columns * s.size + (apart ? (33 - p.group) * kVector : 0);
  return (p.kind == kLate ? 4 : 3) * 2 * row + columns * (wide ? 2 : 4);
}

// A run of rows begins and ends on 16 bytes, and its lanes have all of each row.
static void check_dense(const Shape& s, const Plan& p, const kw::Device& device, uint32_t features) {
  constexpr int kPieces = 5, kStages = 3, kTensors = 3;
  const int64_t rows_a_warp = kWarp / p.group & ~1;
#define CHECK_DENSE(condition)                                                                                      \
  CHECK(condition, "%lld x %lld, %d lanes, %d teams, %lld partials", (long long)s.rows, (long long)s.cols, p.group, \
        p.teams, (long long)p.partials)
  CHECK_DENSE(s.dense && !s.aligned && s.size == 2 && (features & KW_FEATURE_WGMMA) != 0);
  CHECK_DENSE(p.group < kWarp / 2);  // so far the kernel adds round a row's lanes
  CHECK_DENSE(rows_a_warp >= 2 && rows_a_warp * s.cols * s.size % kVector == 0);
  CHECK_DENSE(s.cols % 4 == 0 && p.group * kPieces * 4 >= s.cols);
  CHECK_DENSE(p.team_warps == 1 && p.parts == 1 && p.times == 1 && p.period == 1 && !p.cluster);
  CHECK_DENSE(p.teams >= 1 && p.teams <= 16 && p.shared == p.teams * kStages * kTensors * kWarp * kPieces * 8);
  CHECK_DENSE(p.shared <= device.shared_per_block);
  // A block's sums, which take the place of its rows.
  CHECK_DENSE(p.teams * rows_a_warp * s.cols * 4 * 2 <= p.shared);
  CHECK_DENSE(p.partials >= 1 && p.rows_a_turn == p.partials * p.teams * rows_a_warp);
  CHECK_DENSE((p.partials - 1) * p.teams * rows_a_warp < s.rows);
  const int64_t bytes = workspace_bytes(s.rows, s.cols, s.centered, device, features);
  CHECK_DENSE(p.sums() == 1 || bytes >= p.sums() * ((s.cols + 3) / 4 * 16) * (s.centered ? 2 : 1));
}

static void check(const Shape& s, const kw::Device& device, uint32_t features) {
  const Plan p = plan_for(s, device, features);
  if (p.kind == kDense) return check_dense(s, p, device, features);
  const int warps = p.teams * p.team_warps;
  const bool phased = p.kind == kPhased || p.kind == kPhasedWide;
#define CHECK_PLAN(condition)                                                                             \
  CHECK(condition, "%lld x %lld of %d bytes, %s%s, on a device of %d multiprocessors", (long long)s.rows, \
        (long long)s.cols, s.size, s.aligned ? "aligned" : "shifted", s.centered ? ", centered" : "",     \
        device.multiprocessors)
  CHECK_PLAN(p.team_warps <= kTeamWarps && p.teams >= 1 && warps <= most_warps(s, features != 0));
  CHECK_PLAN(p.team_warps == 1 || p.teams < 16);  // each has a barrier of its own
  CHECK_PLAN(p.shared + kScratch <= device.shared_per_block && p.shared == warps * shared_of_warp(s, p));
  CHECK_PLAN(!p.cluster || (features != 0 && p.parts <= kClusterParts));
  CHECK_PLAN(p.cluster || p.parts == 1 || features == 0 || p.kind == kShifted);
  CHECK_PLAN(s.aligned || p.kind == kShifted || phased);
  CHECK_PLAN(!phased || (s.period > 0 && s.size == 2 && warps <= kTeamWarps));
  CHECK_PLAN(!is_wide(p.kind) || (s.plain && p.cluster && p.group == kWarp && warps <= 16));
  CHECK_PLAN(!p.cluster || p.teams <= (p.kind == kWide ? 3 : 1));
  CHECK_PLAN(p.kind != kWide || s.centered);
  // All rows of a block begin alike, or those of each of two times; within whole sectors where groups are enough.
  CHECK_PLAN(!phased || p.period == (p.sectors ? s.sectors : s.period));
  CHECK_PLAN(p.kind == kPhasedWide ? p.sectors == (s.sectors > 0 && p.partials >= s.sectors) : !p.sectors);
  CHECK_PLAN(p.times == 1 ? p.rows_a_turn % p.period == 0 && p.partials % p.period == 0
                          : p.times == 2 && p.cluster && p.partials >= p.period && s.rows <= int64_t{1} << 31);
  // Then no group has rows of three.
  CHECK_PLAN(p.pause == 0 || (p.kind == kPhasedWide && p.times == 2 && 4 * p.partials >= 5 * p.period));
  CHECK_PLAN(p.pause == 0 || s.rows / p.partials >= 32);
  CHECK_PLAN(p.kind != kLate || (p.cluster && s.size == 2));
  CHECK_PLAN(p.parts == 1 || p.group == kWarp);
  // Every column, and every row once; no block without any.
  const int64_t before = phased ? kVector / s.size - 1 : 0;  // elements, of a row's first vector
  CHECK_PLAN(int64_t{p.parts} * p.team_warps * p.group * columns_of(p.kind) >= s.cols + before);
  CHECK_PLAN(p.partials >= 1 && p.rows_a_turn == p.partials * p.teams * (kWarp / p.group));
  CHECK_PLAN((p.partials - 1) * p.teams * (kWarp / p.group) < s.rows);
  const int64_t bytes = workspace_bytes(s.rows, s.cols, s.centered, device, features);
  CHECK_PLAN(p.sums() == 1 || bytes >= p.sums() * ((s.cols + 3) / 4 * 16) * (s.centered ? 2 : 1));
}

CASE(every_width) {
  for (const auto& on : kDevices) {
    for (int64_t cols = 1; cols <= 65536; cols += cols < 1100 ? 1 : 173) {
      for (const int64_t rows : {int64_t{1}, int64_t{100}, int64_t{4000}, int64_t{1} << 40}) {
        for (const int size : {2, 4}) {
          for (const bool centered : {false, true}) {
            check({rows, cols, size, false, centered}, on.device, on.features);
            check({rows, cols, size, false, centered, true, 2, true, size == 2}, on.device, on.features);
            for (int period = 1; period <= kVector / size; period *= 2) {
              check({rows, cols, size, false, centered, true, period}, on.device, on.features);
              check({rows, cols, size, false, centered, true, period, size == 2}, on.device, on.features);
              check({rows, cols, size, false, centered, true, period, size == 2, false, period}, on.device,
                    on.features);
              check({rows, cols, size, false, centered, true, period, size == 2, false, 2 * period}, on.device,
                    on.features);
            }
            if (cols * size % kVector != 0) continue;
            check({rows, cols, size, true, centered}, on.device, on.features);
            check({rows, cols, size, true, centered, true}, on.device, on.features);
            check({rows, cols, size, true, centered, false, 0, size == 2}, on.device, on.features);
            check({rows, cols, size, true, centered, true, 0, size == 2}, on.device, on.features);
          }
        }
      }
    }
    check({3, 65536, 4, true, true}, on.device, on.features);
  }
}

// What of a call decides whether a wide or a phased kernel, which only bfloat16 has, is for it.
CASE(types_and_weights) {
  const char* place = reinterpret_cast<const char*>(int64_t{1} << 48);
  const kw::Device& device = kDevices[0].device;
  const uint32_t features = kDevices[0].features;
  for (const bool centered : {false, true}) {
    for (const int64_t cols : {12288, 12289}) {
      kw::NormBackward a{};
      a.dx = const_cast<char*>(place), a.dy = a.h = place;
      a.dx_stride = a.dy_stride = a.h_stride = a.cols = cols;
      a.rows = 4096, a.centered = centered;
      const auto kind = [&](int32_t dtype, const void* weight, int32_t weight_dtype) {
        a.dtype = dtype, a.weight = weight, a.weight_dtype = weight_dtype;
        return plan_for(a, device, features).kind;
      };
      const bool aligned = cols % 8 == 0;
      const Kind wide = !aligned ? kPhasedWide : centered ? kWide : kAligned;
      const Kind narrow = !aligned ? kPhased : centered ? kLate : kAligned;
      CHECK(kind(KW_BFLOAT16, place, KW_BFLOAT16) == wide, "%lld columns, kind %d", (long long)cols, wide);
      CHECK(kind(KW_BFLOAT16, nullptr, KW_FLOAT32) == wide, "%lld columns without weights", (long long)cols);
      CHECK(kind(KW_BFLOAT16, place, KW_FLOAT32) == narrow, "%lld columns, float32 weights", (long long)cols);
      CHECK(kind(KW_FLOAT16, place, KW_FLOAT16) == (aligned ? narrow : kShifted), "%lld columns of float16",
            (long long)cols);
    }
  }
}

// Rows on 16 bytes that a wide kernel's teams would not fill a multiprocessor with are as if they were off them.
CASE(aligned_rows_in_phase) {
  const kw::Device& device = kDevices[0].device;
  const auto kind = [&](int64_t cols, bool adds) {
    return plan_for({4096, cols, 2, true, true, adds, 1, true, false, 1}, device, kDevices[0].features).kind;
  };
  for (const int64_t cols : {16384, 32768, 65536}) {
    CHECK(kind(cols, false) == kWide && kind(cols, true) == kWide, "%lld columns", (long long)cols);
  }
  for (const int64_t cols : {10240, 12288, 24576}) {
    CHECK(kind(cols, false) == kWide && kind(cols, true) == kPhasedWide, "%lld columns", (long long)cols);
  }
  for (const int64_t cols : {36864, 45056, 57336}) {
    CHECK(kind(cols, false) == kPhasedWide && kind(cols, true) == kPhasedWide, "%lld columns", (long long)cols);
  }
}

// Rows too few for a group to have each of sixteen beginnings begin on vectors alone.
CASE(few_rows_off_sectors) {
  for (const int64_t rows : {12, 16}) {
    const Plan p =
        plan_for({rows, 12289, 2, false, true, false, 8, true, false, 16}, kDevices[0].device, kDevices[0].features);
    CHECK(p.kind == kPhasedWide && p.sectors == (rows == 16) && p.period == (rows == 16 ? 16 : 8),
          "%lld rows: kind %d, period %d", (long long)rows, p.kind, p.period);
  }
}

// A multiprocessor has two wide rows, at different points: a block's, or if they are phased two blocks'. Blocks are no
// more than there is room for.
CASE(wide_rows) {
  constexpr int kReserved = 1 << 10;  // bytes of shared memory that a block has besides
  const kw::Device& device = kDevices[0].device;
  for (int64_t cols = 8200; cols <= 65536 - 8; cols += 8) {
    for (const int64_t off : {0, 1}) {
      const Shape s{1 << 20, cols + off, 2, off == 0, true, false, off == 0 ? 0 : 8, true};
      const Plan p = plan_for(s, device, kDevices[0].features);
      const int fixed = (2 - static_cast<int>(off)) << 10;
      const int room = device.shared_per_multiprocessor / (p.shared + fixed + kReserved);
      const int64_t blocks = p.partials * p.parts, usable = device.multiprocessors * 15 / 16;
      CHECK(p.kind == (off == 0 ? kWide : kPhasedWide) && p.team_warps <= 8 && p.times == 1 + off,
            "%lld columns: kind %d, %d warps, %d times", (long long)s.cols, p.kind, p.team_warps, p.times);
      // With several blocks a multiprocessor a whole number of times the clusters that fit with one.
      const int64_t clusters = (p.parts > 2 ? usable : device.multiprocessors) / p.parts,
                    layers = p.partials / clusters;
      CHECK(off == 0 ? blocks * p.teams > 2 * usable - p.parts * p.teams
                     : layers >= 2 && layers <= room && p.partials == layers * clusters,
            "%lld columns: %lld blocks of %d parts and %d teams, of which a multiprocessor has room for %d",
            (long long)s.cols, (long long)blocks, p.parts, p.teams, room);
      CHECK(blocks <= int64_t{room} * device.multiprocessors, "%lld columns: %lld blocks", (long long)s.cols,
            (long long)blocks);
      if (off == 0) continue;
      // Blocks share the whole vectors evenly, and their warps have room for them.
      const int64_t vectors = s.cols / 8, lines = lines_of_block(s.cols, p.parts);
      CHECK(lines * p.parts * kWarp >= vectors && (lines - 1) * p.parts * kWarp < vectors && lines <= p.team_warps * 4,
            "%lld columns: %lld lines for each of %d blocks of %d warps", (long long)s.cols, (long long)lines, p.parts,
            p.team_warps);
    }
  }
}

// The second pass: every column, whole warps of eight and more, and shared memory that needs no asking for.
CASE(finish) {
  for (const auto& on : kDevices) {
    for (int64_t cols = 1; cols <= 65536; cols += cols < 1100 ? 1 : 173) {
      for (const int64_t partials : {0, 1, 30, 132, 4000}) {
        for (const bool centered : {false, true}) {
          const Finish f = finish_for(cols, partials, centered, on.device);
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
  namespace few = kw::norm_backward_few;
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
        CHECK(threads % kWarp == 0 && threads <= few::kMostThreads && threads * few::kSlots >= units,
              "%u threads for %lld units", threads, (long long)units);
        // The last step of a block's sums is a column a thread, of two sums.
        CHECK(beside % kWarp == 0 && beside <= few::kMostColumnsThreads &&
                  lanes * kVector / kw::size_of(a.dtype) * 2 <= beside,
              "%u threads for %u units of columns", beside, lanes);
      }
    }
  }
}

RUN_CASES()
