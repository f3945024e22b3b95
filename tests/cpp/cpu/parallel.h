// SPDX-License-Identifier: MIT
// A call that several threads share, its expected result, and children to make it in.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

namespace {

constexpr int64_t kRows = 509, kCols = 1021;
constexpr size_t kCount = static_cast<size_t>(kRows * kCols);

float* x;
float* expected;  // by one thread

inline void run(float* y) {
  CHECK(kw_rms_norm(KW_CPU, nullptr, y, kCols, nullptr, 0, x, kCols, nullptr, 0, nullptr, nullptr, kRows, kCols,
                    KW_FLOAT32, KW_FLOAT32, 1e-6) == KW_OK,
        "%s", kw_last_error());
}

inline bool same(const float* y) { return memcmp(y, expected, kCount * sizeof(float)) == 0; }

inline float* fresh() { return static_cast<float*>(malloc(kCount * sizeof(float))); }

inline int tasks() {
  int count = 0;
  FILE* file = fopen("/proc/self/status", "r");
  for (char text[256]; file && fgets(text, sizeof text, file);) sscanf(text, "Threads: %d", &count);
  if (file) fclose(file);
  return count;
}

// Whether there are no more threads than that, soon: one that was joined may still be on its way out.
inline bool tasks_fall_to(int most) {
  for (int i = 0; i < 1000 && tasks() > most; ++i) usleep(10000);
  return tasks() <= most;
}

// Runs check() in a child and passes its failures on; a child that hangs is killed by its alarm, which fails as well.
template <class Check>
void in_child(const char* what, Check check) {
  fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    failures = 0;
    check();
    exit(failures != 0);
  }
  int status = -1;
  waitpid(child, &status, 0);
  CHECK(child > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0, "%s: child ended with status %#x", what,
        static_cast<unsigned>(status));
}

// Rows to work on, and what one thread makes of them.
inline void make_expected() {
  x = fresh();
  expected = fresh();
  Random random;
  for (size_t i = 0; i < kCount; ++i) x[i] = static_cast<float>(random.normal());
  kw_set_num_threads(1);
  run(expected);
}

}  // namespace
