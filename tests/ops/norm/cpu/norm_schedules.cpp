// SPDX-License-Identifier: MIT
// The sums over rows of a norm's backward pass have the same bits whoever adds them and when. Threads that run as they
// like seldom take the schedules that are hard; here a range of chunks runs at once, in any order, on any of three
// "threads", as they may steal from each other. The code is the library's own, its threads and pages are this file's.
#include "ops/norm/api/rms_norm.h"

#include "../../../cpp/cpu/check.h"
#include "ops/norm/cpu/chunks.h"
// The library tells threads by an address of each; here a variable says which one it is.
#define this_thread unused_this_thread
#include "ops/norm/host/chunks.cpp"
#undef this_thread

#if defined(__aarch64__)
#define KW_ISA neon
#else
#define KW_ISA scalar
#endif
#include "ops/norm/cpu/backward.h"

namespace {

constexpr int kThreads = 3, kRanges = 128;
constexpr int64_t kMostRows = 1100, kMostCols = 70;

Random random_numbers;
char threads[kThreads];
int running = 0;
bool shuffled = false;

}  // namespace

namespace kw::cpu {

const void* this_thread() { return &threads[running]; }

void will_write(const void*, int64_t) {}

void parallel_for(int64_t count, int64_t, RangeBody body, const void* context) {
  if (!shuffled) return body(context, 0, count);
  int64_t cuts[kRanges + 1] = {};
  int order[kRanges], ranges = 0;
  while (cuts[ranges] < count) {
    const int64_t end = cuts[ranges] + 1 + random_numbers.bits() % 5;
    order[ranges] = ranges;
    cuts[++ranges] = end < count ? end : count;
  }
  for (int i = ranges - 1; i > 0; --i) {
    const int j = static_cast<int>(random_numbers.bits() % static_cast<uint32_t>(i + 1)), kept = order[i];
    order[i] = order[j];
    order[j] = kept;
  }
  for (int i = 0; i < ranges; ++i) {
    running = static_cast<int>(random_numbers.bits() % kThreads);
    body(context, cuts[order[i]], cuts[order[i] + 1]);
  }
}

}  // namespace kw::cpu

namespace {

using kw::cpu::KW_ISA::backward_chunks;
using kw::cpu::KW_ISA::backward_columns;

struct Results {
  float dx[kMostRows * kMostCols], dweight[kMostCols], dbias[kMostCols];
};

template <bool kCentered>
void all_chunks(const void* args, int64_t begin, int64_t end) {
  backward_chunks<kCentered>(*static_cast<const kw::NormBackward*>(args), begin, end);
}

void all_columns(const void* args, int64_t begin, int64_t end) {
  backward_columns(*static_cast<const kw::NormBackward*>(args), begin, end);
}

void fill(float* data, int64_t count) {
  for (int64_t i = 0; i < count; ++i) data[i] = static_cast<float>(random_numbers.normal());
}

template <bool kCentered>
void check(int64_t rows, int64_t cols) {
  static float dy[kMostRows * kMostCols], h[kMostRows * kMostCols], weight[kMostCols];
  static Results first, again;
  // Not cleared between calls: what an earlier one left there must not count.
  alignas(16) static char workspace[1 << 18];
  fill(dy, rows * cols);
  fill(h, rows * cols);
  fill(weight, cols);
  const int64_t needed = kw::cpu::norm_backward_workspace(rows, cols, kCentered);
  CHECK(needed <= static_cast<int64_t>(sizeof workspace), "%lld bytes", static_cast<long long>(needed));
  for (int schedule = 0; schedule < 40; ++schedule) {
    shuffled = schedule > 0;
    Results& found = shuffled ? again : first;
    kw::NormBackward a{};
    a.dx = found.dx, a.dweight = found.dweight, a.dbias = kCentered ? found.dbias : nullptr;
    a.dy = dy, a.h = h, a.weight = weight, a.workspace = workspace;
    a.dx_stride = a.dy_stride = a.h_stride = cols;
    a.rows = rows, a.cols = cols;
    a.dtype = a.weight_dtype = KW_FLOAT32;
    a.eps = 1e-5f, a.centered = kCentered;
    CHECK(kw::cpu::run_norm_backward(a, all_chunks<kCentered>, all_columns) == KW_OK, "it failed");
    const auto bytes = static_cast<size_t>(cols) * sizeof(float);
    CHECK(memcmp(found.dweight, first.dweight, bytes) == 0, "%lld rows: dweight", static_cast<long long>(rows));
    CHECK(!kCentered || memcmp(found.dbias, first.dbias, bytes) == 0, "%lld rows: dbias", static_cast<long long>(rows));
    CHECK(memcmp(found.dx, first.dx, static_cast<size_t>(rows) * bytes) == 0, "%lld rows: dx",
          static_cast<long long>(rows));
  }
}

// The sums that are left to add lie in arrays of so many.
void check_chunks() {
  for (int64_t rows = 1; rows < (int64_t{1} << 40); rows += 1 + rows / 7) {
    const kw::cpu::Chunks cut = kw::cpu::chunks_of(rows);
    CHECK(cut.count <= kw::cpu::kMostChunks && cut.count * cut.rows_each >= rows &&
              (cut.count - 1) * cut.rows_each < rows,
          "%lld rows: %lld chunks of %lld", static_cast<long long>(rows), static_cast<long long>(cut.count),
          static_cast<long long>(cut.rows_each));
  }
}

}  // namespace

int main() {
  check_chunks();
  constexpr int64_t kRows[] = {1, 8, 9, 17, 40, 63, 129, 250, 512, 513, 700, 1031};
  for (const int64_t rows : kRows) {
    check<false>(rows, 5);
    check<true>(rows, 70);
  }
  if (failures) fprintf(stderr, "%d failures\n", failures);
  return failures != 0;
}
