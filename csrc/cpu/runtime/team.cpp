// SPDX-License-Identifier: MIT
// Two sets of threads that wait awake for their next job take the cores from each other: beside a program's OpenMP
// threads (torch's) those of the pool start late, and the program's after them. So a program that has an OpenMP runtime
// can have its threads do our work too.
#include "cpu/runtime/team.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "core/error.h"
#include "core/number.h"
#include "cpu/pool.h"
#include "cpu/runtime/fork_mark.h"

namespace kw::cpu {
namespace {

// What GCC's compiled `#pragma omp parallel` calls; LLVM's and Intel's runtimes have it too.
using Parallel = void (*)(void (*body)(void*), void* data, unsigned threads, unsigned flags);

using ThreadNumber = int (*)();

struct Shared {
  Parallel parallel;  // written last: nullptr, nothing is shared
  ThreadNumber thread_number;
  pid_t process;
  uint8_t* mark;
};

Shared shared;

bool shared_here() { return *shared.mark && shared.process == getpid(); }

struct Team {
  const Job* job;
  int64_t taken[kMaxThreads];
};

// The threads are the program's: each gets its floating-point modes back.
void work(void* data) {
  Team& team = *static_cast<Team*>(data);
  const Modes before = modes();
  set_modes(team.job->modes);
  take_parts(*team.job, team.taken, shared.thread_number() % team.job->threads);
  set_modes(before);
}

// Whether this process was forked and has not called exec since: if its parent had used OpenMP, a team in here waits
// forever for threads that were left behind. Also true where /proc does not tell.
bool forked() {
  constexpr long long kForkedWithoutExec = 0x40;  // PF_FORKNOEXEC in the kernel's include/linux/sched.h
  char text[1024];
  const int file = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
  if (file < 0) return true;
  const ssize_t got = read(file, text, sizeof text - 1);
  close(file);
  if (got <= 0) return true;
  text[got] = '\0';
  // The second field is a name in parentheses, which may hold anything.
  const char* rest = strrchr(text, ')');
  if (!rest || strlen(rest) < 4) return true;
  rest += 3;  // a blank and the state, one letter; then five numbers and the flags
  long long flags = 0;
  for (int field = 0; field < 6; ++field) {
    if (!read_number(rest, &rest, &flags)) return true;
  }
  return (flags & kForkedWithoutExec) != 0;
}

}  // namespace

bool run_on_team(const Job& job) {
  const Parallel parallel = __atomic_load_n(&shared.parallel, __ATOMIC_ACQUIRE);
  if (!parallel || !shared_here()) return false;
  Team team;
  team.job = &job;
  memset(team.taken, 0, static_cast<size_t>(job.threads) * sizeof team.taken[0]);
  parallel(work, &team, static_cast<unsigned>(job.threads), 0);
  return true;
}

}  // namespace kw::cpu

kw_status kw_share_openmp(void) {
  using namespace kw::cpu;
  constexpr const char* kOwn = "the library keeps to threads of its own";
  const bool known = __atomic_load_n(&shared.parallel, __ATOMIC_ACQUIRE) != nullptr;
  if (known && shared_here()) return KW_OK;
  if (known || forked()) {
    return kw::fail(KW_ERROR_UNSUPPORTED,
                    "kw_share_openmp: this process was forked from one that may have used OpenMP; %s", kOwn);
  }
  const auto parallel = reinterpret_cast<Parallel>(dlsym(RTLD_DEFAULT, "GOMP_parallel"));
  const auto thread_number = reinterpret_cast<ThreadNumber>(dlsym(RTLD_DEFAULT, "omp_get_thread_num"));
  if (!parallel || !thread_number) {
    return kw::fail(KW_ERROR_UNSUPPORTED, "kw_share_openmp: no OpenMP runtime (GOMP_parallel) is loaded; %s", kOwn);
  }
  shared.mark = fork_mark();
  if (!shared.mark) return kw::fail(KW_ERROR_OUT_OF_MEMORY, "kw_share_openmp: no memory for a page; %s", kOwn);
  *shared.mark = 1;
  shared.process = getpid();
  shared.thread_number = thread_number;
  __atomic_store_n(&shared.parallel, parallel, __ATOMIC_RELEASE);
  return KW_OK;
}
