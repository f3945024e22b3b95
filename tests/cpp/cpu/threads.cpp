// SPDX-License-Identifier: MIT
// The thread pool through kw_rms_norm: any number of threads gives the same bits, after fork, for callers at once, and
// where no thread can be started. The program ends with workers alive, so that a hang at exit shows too.
#include <fenv.h>
#include <pthread.h>
#include <sys/resource.h>

#include "parallel.h"

namespace {

// Before any thread was started: a stack of one that has ended would serve the next.
void check_refused_threads() {
#ifdef __SANITIZE_ADDRESS__
  printf("no memory for a thread: skipped, the address sanitizer ends a process that has no more memory\n");
#else
  in_child("no memory for a thread", [] {
    float* y = fresh();
    memset(y, 0, kCount * sizeof(float));
    kw_set_num_threads(4);
    const int before = tasks();
    const rlimit none = {1 << 20, 1 << 20};
    CHECK(setrlimit(RLIMIT_AS, &none) == 0, "setrlimit failed");
    if (void* more = malloc(64 << 20)) {
      printf("no memory for a thread: skipped, RLIMIT_AS has no effect here (an emulator?)\n");
      free(more);
      exit(0);
    }
    run(y);
    CHECK(same(y), "wrong result without threads");
    CHECK(tasks() == before, "%d threads were started", tasks() - before);
    free(y);
  });
#endif
}

void check_counts() {
  CHECK(kw_set_num_threads(-1) == KW_ERROR_INVALID_ARGUMENT, "-1 threads accepted");
  const int before = tasks();
  CHECK(kw_set_num_threads(3) == KW_OK && kw_num_threads() == 3, "%d threads", kw_num_threads());
  float* y = fresh();
  memset(y, 0, kCount * sizeof(float));
  run(y);
  CHECK(same(y), "3 threads: wrong result");
  CHECK(tasks() == before + 2, "2 threads beside this one were wanted, %d are there", tasks() - before);
  constexpr int kCounts[] = {1, 2, 8, 5, 1, 16, 0};
  for (const int count : kCounts) {
    CHECK(kw_set_num_threads(count) == KW_OK, "%s", kw_last_error());
    for (int i = 0; i < 20; ++i) {
      memset(y, 0, kCount * sizeof(float));
      run(y);
      CHECK(same(y), "%d threads: wrong result", count);
    }
  }
  CHECK(kw_num_threads() >= 1, "%d threads by default", kw_num_threads());
  free(y);
}

void check_default() {
  in_child("OMP_NUM_THREADS", [] {
    setenv("OMP_NUM_THREADS", "7,2", 1);
    CHECK(kw_num_threads() == 7, "OMP_NUM_THREADS=7,2 gives %d", kw_num_threads());
  });
  in_child("OMP_NUM_THREADS that is no number", [] {
    setenv("OMP_NUM_THREADS", "many", 1);
    CHECK(kw_num_threads() >= 1 && kw_num_threads() <= sysconf(_SC_NPROCESSORS_CONF), "%d threads", kw_num_threads());
  });
}

// Four rows of 4096 are done before a thread would have woken up.
void check_small() {
  in_child("four rows", [] {
    kw_set_num_threads(4);
    const int before = tasks();
    float* y = fresh();
    CHECK(kw_rms_norm(KW_CPU, nullptr, y, 4096, nullptr, 0, x, 4096, nullptr, 0, nullptr, nullptr, 4, 4096, KW_FLOAT32,
                      KW_FLOAT32, 1e-6) == KW_OK,
          "%s", kw_last_error());
    CHECK(tasks() == before, "four rows started %d threads", tasks() - before);
    free(y);
  });
}

void* repeat(void*) {
  float* y = fresh();
  for (int i = 0; i < 50; ++i) {
    memset(y, 0, kCount * sizeof(float));
    run(y);
    CHECK(same(y), "a caller among others: wrong result");
  }
  free(y);
  return nullptr;
}

// Callers at once, while this thread forks: whatever the others were in the middle of, the child works.
void check_callers_and_forks() {
  kw_set_num_threads(4);
  pthread_t callers[3];
  for (pthread_t& caller : callers) pthread_create(&caller, nullptr, repeat, nullptr);
  for (int i = 0; i < 20; ++i) {
    in_child("fork", [] {
      const int before = tasks();
      float* y = fresh();
      for (int k = 0; k < 3; ++k) {
        memset(y, 0, kCount * sizeof(float));
        run(y);
        CHECK(same(y), "after fork: wrong result");
      }
      CHECK(tasks() == before + 3, "after fork 3 threads were wanted, %d are there", tasks() - before);
      free(y);
    });
  }
  for (pthread_t& caller : callers) pthread_join(caller, nullptr);
}

// The caller's rounding holds for every row, whichever thread computes it.
void check_modes() {
  float* one = fresh();
  float* many = fresh();
  fesetround(FE_UPWARD);
  kw_set_num_threads(1);
  run(one);
  kw_set_num_threads(4);
  for (int i = 0; i < 20; ++i) {
    run(many);
    CHECK(memcmp(one, many, kCount * sizeof(float)) == 0, "other threads round otherwise");
  }
  fesetround(FE_TONEAREST);
  CHECK(!same(one), "the rounding mode made no difference, so this showed nothing");
  run(many);
  CHECK(same(many), "the rounding mode stayed");
  free(many);
  free(one);
}

}  // namespace

int main() {
  alarm(300);
  check_default();
  make_expected();
  check_refused_threads();
  check_small();
  check_counts();
  check_callers_and_forks();
  check_modes();
  if (failures) fprintf(stderr, "%d failures\n", failures);
  return failures != 0;
}
