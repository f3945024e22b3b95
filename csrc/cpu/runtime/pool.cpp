// SPDX-License-Identifier: MIT
// One caller at a time owns the workers. It fills in the job, opens the gate, and takes parts like everybody else; a
// worker that finds the gate open goes in, takes parts until none is left, and leaves. The caller shuts the gate and
// waits for those inside only: a worker that wakes too late finds the gate shut, and no job waits for it.
#include "cpu/pool.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "cpu/runtime/fork_mark.h"
#include "cpu/runtime/team.h"

namespace kw::cpu {
namespace {

constexpr uint32_t kOpen = 1u << 31;     // gate: a job is to be done
constexpr uint32_t kWaiting = 1u << 30;  // gate: the caller sleeps until the last worker leaves
// How long who waits stays awake: first for itself, then as long as nobody else wants its core. Between two calls of a
// program's loop lies less than the second time as a rule, and on a virtual machine waking up may take as long.
constexpr int64_t kSpinNanoseconds = 20000, kYieldNanoseconds = 200000;
// So that a thread which lost its core for a while holds up a quarter of its share.
constexpr int64_t kPartsPerThread = 4;

struct Pool {
  alignas(64) pid_t owner;     // the process of the caller that has the pool; 0: nobody has
  alignas(64) uint32_t calls;  // counts jobs; idle workers sleep on it
  uint32_t asleep;             // workers that do
  alignas(64) uint32_t gate;   // kOpen, kWaiting, and the number of workers inside
  uint32_t limit;              // how many may be
  alignas(64) Job job;         // written while the gate is shut and nobody is inside
  int32_t caller_core;         // where the caller ran when it called
  alignas(64) int64_t taken[kMaxThreads];
  uint32_t stopping, refused;
  int workers;
  pid_t process;  // whose workers they are
  uint8_t* mark;
  pthread_t threads[kMaxThreads - 1];
};

Pool pool;

void sleep_on(uint32_t* word, uint32_t value) {
  syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, nullptr, nullptr, 0);
}

void wake(uint32_t* word, int threads) { syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, threads, nullptr, nullptr, 0); }

int64_t now() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<int64_t>(t.tv_sec) * 1000000000 + t.tv_nsec;
}

// Waits a moment for `word` to become another value; false if it did not.
bool spin_until_not(const uint32_t* word, uint32_t value) {
  const int64_t start = now();
  for (int64_t waited = 0; waited < kYieldNanoseconds; waited = now() - start) {
    for (int i = 0; i < 16; ++i) {
      if (__atomic_load_n(word, __ATOMIC_ACQUIRE) != value) return true;
      relax();
    }
    if (waited > kSpinNanoseconds) sched_yield();
  }
  return false;
}

bool enter() {
  uint32_t gate = __atomic_load_n(&pool.gate, __ATOMIC_ACQUIRE);
  do {
    const uint32_t inside = gate & ~(kOpen | kWaiting);
    if (!(gate & kOpen) || inside >= __atomic_load_n(&pool.limit, __ATOMIC_RELAXED)) return false;
  } while (!__atomic_compare_exchange_n(&pool.gate, &gate, gate + 1, true, __ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE));
  return true;
}

void leave() {
  if (__atomic_sub_fetch(&pool.gate, 1, __ATOMIC_ACQ_REL) == kWaiting) wake(&pool.gate, 1);
}

// Returns the count of jobs once it is no longer `seen`.
uint32_t await_job(uint32_t seen) {
  if (!spin_until_not(&pool.calls, seen)) {
    __atomic_add_fetch(&pool.asleep, 1, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(&pool.calls, __ATOMIC_SEQ_CST) == seen) sleep_on(&pool.calls, seen);
    __atomic_sub_fetch(&pool.asleep, 1, __ATOMIC_SEQ_CST);
  }
  return __atomic_load_n(&pool.calls, __ATOMIC_ACQUIRE);
}

constexpr size_t kMostCores = 65536;

struct Cores {
  alignas(cpu_set_t) unsigned char mask[kMostCores / 8];  // the kernel refuses one that is too short for its cores

  cpu_set_t* set() { return reinterpret_cast<cpu_set_t*>(mask); }
};

// Some kernels wake a thread on its waker's core although others are idle. There a worker would find all work done
// whenever it gets to run, each time again: so it leaves the caller that core from then on.
void leave_callers_core(Cores& allowed) {
  const auto core = static_cast<size_t>(__atomic_load_n(&pool.caller_core, __ATOMIC_RELAXED));
  if (core >= kMostCores || static_cast<int>(core) != sched_getcpu()) return;
  Cores others = allowed;
  CPU_CLR_S(core, sizeof others.mask, others.set());
  if (CPU_COUNT_S(sizeof others.mask, others.set()) > 0) sched_setaffinity(0, sizeof others.mask, others.set());
}

// `born` is the count of jobs when this worker was started, and after it, in the upper half, its number from 1 on.
void* work(void* born) {
  auto seen = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(born));
  const int self = static_cast<int>(reinterpret_cast<uintptr_t>(born) >> 32);
  Cores allowed = {};
  sched_getaffinity(0, sizeof allowed.mask, allowed.set());
  for (;;) {
    seen = await_job(seen);
    if (__atomic_load_n(&pool.stopping, __ATOMIC_ACQUIRE)) return nullptr;
    leave_callers_core(allowed);
    if (!enter()) continue;
    set_modes(pool.job.modes);
    take_parts(pool.job, pool.taken, self % pool.job.threads);
    leave();
  }
}

// Forgets the workers of another process, or of none so far.
bool adopt(pid_t here) {
  if (!pool.mark) pool.mark = fork_mark();
  if (!pool.mark) return false;
  *pool.mark = 1;
  pool.asleep = pool.gate = pool.stopping = 0;
  pool.workers = 0;
  forget_refusal();
  __atomic_store_n(&pool.process, here, __ATOMIC_RELAXED);
  return true;
}

void disown() { __atomic_store_n(&pool.owner, 0, __ATOMIC_RELEASE); }

// Takes the pool, unless a thread of this process has it. A forked child has none of the workers, nor whoever had the
// pool then. Not by pthread_atfork: what zig links does not take such handlers back when it is unloaded. The mark is
// for a child that bears its parent's number in a PID namespace of its own.
bool own() {
  const pid_t here = getpid();
  pid_t owner = __atomic_load_n(&pool.owner, __ATOMIC_RELAXED);
  if (owner == here) return false;
  if (!__atomic_compare_exchange_n(&pool.owner, &owner, here, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) return false;
  if ((pool.process == here && *pool.mark) || adopt(here)) return true;
  disown();
  return false;
}

bool start_one() {
  // Signals are for the program's own threads; those that a fault raises stay, so that its crash handler sees them.
  sigset_t blocked, before;
  sigfillset(&blocked);
  constexpr int kFaults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS};
  for (const int fault : kFaults) sigdelset(&blocked, fault);
  pthread_sigmask(SIG_SETMASK, &blocked, &before);
  const uintptr_t number = static_cast<uintptr_t>(pool.workers) + 1;
  const uintptr_t born = number << 32 | __atomic_load_n(&pool.calls, __ATOMIC_RELAXED);
  const int error = pthread_create(&pool.threads[pool.workers], nullptr, work, reinterpret_cast<void*>(born));
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (error != 0) return false;
  pthread_setname_np(pool.threads[pool.workers], "kernelwright");
  ++pool.workers;
  return true;
}

// Starts workers up to `wanted`; returns how many of these there are. Asks a system that refused once not again.
int ensure_workers(int wanted) {
  while (pool.workers < wanted && !__atomic_load_n(&pool.refused, __ATOMIC_RELAXED)) {
    if (!start_one()) __atomic_store_n(&pool.refused, 1, __ATOMIC_RELAXED);
  }
  return pool.workers < wanted ? pool.workers : wanted;
}

void wait_for_workers() {
  uint32_t gate = __atomic_and_fetch(&pool.gate, ~kOpen, __ATOMIC_ACQ_REL);
  while (gate != 0 && spin_until_not(&pool.gate, gate)) gate = __atomic_load_n(&pool.gate, __ATOMIC_ACQUIRE);
  if (gate != 0) {
    gate = __atomic_or_fetch(&pool.gate, kWaiting, __ATOMIC_ACQ_REL);
    for (; gate != kWaiting; gate = __atomic_load_n(&pool.gate, __ATOMIC_ACQUIRE)) sleep_on(&pool.gate, gate);
  }
  __atomic_store_n(&pool.gate, 0, __ATOMIC_RELAXED);
}

void run(const Job& job, int workers) {
  pool.job = job;
  __atomic_store_n(&pool.caller_core, sched_getcpu(), __ATOMIC_RELAXED);
  memset(pool.taken, 0, static_cast<size_t>(job.threads) * sizeof pool.taken[0]);
  __atomic_store_n(&pool.limit, static_cast<uint32_t>(workers), __ATOMIC_RELAXED);
  __atomic_store_n(&pool.gate, kOpen, __ATOMIC_RELEASE);
  __atomic_add_fetch(&pool.calls, 1, __ATOMIC_SEQ_CST);
  if (__atomic_load_n(&pool.asleep, __ATOMIC_SEQ_CST) != 0) wake(&pool.calls, workers);
  take_parts(pool.job, pool.taken, 0);
  wait_for_workers();
}

// At exit and before the library is unmapped. Keeps the pool, so that whoever still calls stays on its own thread.
// Never hangs: after a second without getting it, the process is left as it is.
[[gnu::destructor]] void shut_down() {
  if (__atomic_load_n(&pool.process, __ATOMIC_RELAXED) != getpid()) return;
  for (int i = 0; !own(); ++i) {
    if (i == 1000) return;
    usleep(1000);
  }
  __atomic_store_n(&pool.stopping, 1, __ATOMIC_RELEASE);
  __atomic_add_fetch(&pool.calls, 1, __ATOMIC_SEQ_CST);
  wake(&pool.calls, kMaxThreads);
  for (int i = 0; i < pool.workers; ++i) pthread_join(pool.threads[i], nullptr);
  munmap(pool.mark, 1);
  pool.mark = nullptr;
}

}  // namespace

void forget_refusal() { __atomic_store_n(&pool.refused, 0, __ATOMIC_RELAXED); }

void parallel_for(int64_t count, int64_t grain, void (*body)(const void*, int64_t, int64_t), const void* context) {
  if (count <= 0) return;
  const int64_t parts = grain > 1 ? count / grain : count;
  if (parts < 2) return body(context, 0, count);
  const int64_t most = kw_num_threads();
  const int64_t threads = parts < most ? parts : most;
  if (threads < 2) return body(context, 0, count);
  // As many for each thread: where parts are few, one more than the others have would hold up the end.
  const int64_t each = parts / threads < kPartsPerThread ? parts / threads : kPartsPerThread;
  const int64_t part = (count + each * threads - 1) / (each * threads);
  const Job job{body, context, count, part, part * each, static_cast<int>(threads), modes()};
  if (run_on_team(job)) return;
  if (!own()) return body(context, 0, count);
  const int workers = ensure_workers(static_cast<int>(threads) - 1);
  if (workers > 0) {
    run(job, workers);
  } else {
    body(context, 0, count);
  }
  disown();
}

}  // namespace kw::cpu
