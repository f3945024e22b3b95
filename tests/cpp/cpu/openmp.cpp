// SPDX-License-Identifier: MIT
// kw_share_openmp() with a stand-in for an OpenMP runtime: the work is done on its threads, with the caller's
// floating-point modes and none left behind, and a forked child does without.
#include <fenv.h>
#include <pthread.h>

#include "parallel.h"

namespace {

int teams;             // how often the stand-in was called
unsigned asked;        // threads it was asked for, last
bool alone;            // whether the next team has one thread whatever is asked for, as in a parallel region
int rounding[4] = {};  // of each thread once it had done its work
thread_local unsigned own_number;

struct Member {
  void (*body)(void*);
  void* data;
  unsigned number;
};

void* join_in(void* member) {
  const Member& m = *static_cast<Member*>(member);
  own_number = m.number;
  m.body(m.data);
  rounding[m.number] = fegetround();
  return nullptr;
}

}  // namespace

// STAND-IN for what libgomp, libomp and libiomp5 have under these names: real ones keep their threads.
extern "C" __attribute__((visibility("default"), used)) int omp_get_thread_num() {
  return static_cast<int>(own_number);
}

extern "C" __attribute__((visibility("default"), used)) void GOMP_parallel(void (*body)(void*), void* data,
                                                                           unsigned threads, unsigned) {
  ++teams;
  asked = threads;
  if (threads > 4) abort();
  if (alone) return body(data);
  pthread_t others[4];
  Member members[4];
  fenv_t modes;
  fegetenv(&modes);
  for (unsigned i = 1; i < threads; ++i) {
    members[i] = {body, data, i};
    fesetround(FE_TONEAREST);  // a new thread has its creator's modes
    pthread_create(&others[i], nullptr, join_in, &members[i]);
    fesetenv(&modes);
  }
  body(data);
  for (unsigned i = 1; i < threads; ++i) pthread_join(others[i], nullptr);
}

namespace {

void check_team() {
  float* y = fresh();
  const int before = teams, threads_before = tasks();
  constexpr unsigned kCounts[] = {2, 3, 4};
  for (const unsigned count : kCounts) {
    kw_set_num_threads(static_cast<int32_t>(count));
    memset(y, 0, kCount * sizeof(float));
    run(y);
    CHECK(same(y), "a team of %u: wrong result", count);
    CHECK(asked == count, "a team of %u was asked for, wanted were %u", asked, count);
  }
  CHECK(teams == before + 3, "%d calls of the runtime, 3 were expected", teams - before);
  CHECK(tasks_fall_to(threads_before), "%d threads of the library's own", tasks() - threads_before);
  alone = true;
  memset(y, 0, kCount * sizeof(float));
  run(y);
  alone = false;
  CHECK(same(y) && teams == before + 4, "a team that has one thread of four: %s",
        same(y) ? "not called" : "wrong result");
  kw_set_num_threads(1);
  run(y);
  CHECK(teams == before + 4, "one thread made a team");
  free(y);
}

void check_modes() {
  float* one = fresh();
  float* many = fresh();
  fesetround(FE_UPWARD);
  kw_set_num_threads(1);
  run(one);
  kw_set_num_threads(4);
  run(many);
  CHECK(fegetround() == FE_UPWARD, "the caller's rounding changed");
  fesetround(FE_TONEAREST);
  CHECK(!same(one), "the rounding mode made no difference, so this showed nothing");
  CHECK(memcmp(one, many, kCount * sizeof(float)) == 0, "the team rounds otherwise");
  for (int i = 1; i < 4; ++i) CHECK(rounding[i] == FE_TONEAREST, "thread %d was left with rounding %d", i, rounding[i]);
  free(many);
  free(one);
}

// Whether /proc/self/stat has the kernel's flags: an emulator's has zeros.
bool flags_are_told() {
  unsigned long flags = 0;
  FILE* file = fopen("/proc/self/stat", "r");
  const bool read = file && fscanf(file, "%*d (%*[^)]) %*c %*d %*d %*d %*d %*d %lu", &flags) == 1;
  if (file) fclose(file);
  return read && flags != 0;
}

// There the runtime's threads are gone, and it waits for them.
void check_child() {
  kw_set_num_threads(4);
  in_child("fork", [] {
    float* y = fresh();
    const int before = teams;
    run(y);
    CHECK(same(y), "after fork: wrong result");
    CHECK(teams == before, "a forked child used the runtime");
    CHECK(kw_share_openmp() == KW_ERROR_UNSUPPORTED, "a forked child shares the runtime");
    CHECK(strstr(kw_last_error(), "forked") != nullptr, "%s", kw_last_error());
    run(y);
    CHECK(same(y) && teams == before, "a forked child used the runtime when it was refused");
    free(y);
  });
}

}  // namespace

int main() {
  alarm(300);
  make_expected();
  float* y = fresh();
  kw_set_num_threads(4);
  if (flags_are_told()) {
    in_child("fork first", [] { CHECK(kw_share_openmp() == KW_ERROR_UNSUPPORTED, "a forked child shares"); });
  }
  run(y);
  CHECK(same(y) && teams == 0, "the runtime was used before it was shared");
  kw_set_num_threads(1);
  CHECK(kw_share_openmp() == KW_OK && kw_share_openmp() == KW_OK, "%s", kw_last_error());
  free(y);
  check_team();
  check_modes();
  check_child();
  if (failures) fprintf(stderr, "%d failures\n", failures);
  return failures != 0;
}
