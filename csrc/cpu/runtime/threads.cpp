// SPDX-License-Identifier: MIT
// How many threads: what was asked for, else OMP_NUM_THREADS, else the CPUs this process may use.
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/error.h"
#include "core/number.h"
#include "cpu/pool.h"

namespace kw::cpu {
namespace {

int asked = 0;  // by kw_set_num_threads
int usual = 0;  // default_threads(), once known

int clamp(long long count) { return count < 1 ? 1 : count > kMaxThreads ? kMaxThreads : static_cast<int>(count); }

// OMP_NUM_THREADS may be a list, one number for each level of nesting; the first counts. 0: not set, or not a number.
int from_environment() {
  const char* text = getenv("OMP_NUM_THREADS");
  if (!text) return 0;
  const char* end;
  long long count = 0;
  if (!read_number(text, &end, &count)) return 0;
  while (*end == ' ') ++end;
  return (*end != '\0' && *end != ',') || count < 1 ? 0 : clamp(count);
}

int from_affinity() {
  alignas(cpu_set_t) unsigned char mask[8192] = {};  // 65536 CPUs; the kernel refuses a mask that is too short
  auto* set = reinterpret_cast<cpu_set_t*>(mask);
  if (sched_getaffinity(0, sizeof mask, set) == 0) return clamp(CPU_COUNT_S(sizeof mask, set));
  return clamp(sysconf(_SC_NPROCESSORS_ONLN));
}

// A whole small file as text; false where there is none.
bool read_text(const char* path, char* text, size_t size) {
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  size_t used = 0;
  for (ssize_t got = 1; got > 0 && used + 1 < size; used += got > 0 ? static_cast<size_t>(got) : 0) {
    got = read(file, text + used, size - 1 - used);
  }
  close(file);
  text[used] = '\0';
  return used > 0;
}

int cpus(long long quota, long long period) {
  return quota > 0 && period > 0 ? clamp((quota + period - 1) / period) : kMaxThreads;
}

long long number_in(const char* text) {
  const char* end;
  long long number = 0;
  return read_number(text, &end, &number) ? number : 0;
}

// The CPUs' worth of time that one group may use.
int quota_of(bool unified, const char* group) {
  char path[4300], text[64];
  if (unified) {
    long long quota = 0, period = 0;
    snprintf(path, sizeof path, "/sys/fs/cgroup%s/cpu.max", group);
    const char* rest;
    const bool limited = read_text(path, text, sizeof text) && read_number(text, &rest, &quota) &&
                         read_number(rest, &rest, &period);  // "max" is no number
    return limited ? cpus(quota, period) : kMaxThreads;
  }
  snprintf(path, sizeof path, "/sys/fs/cgroup/cpu%s/cpu.cfs_quota_us", group);
  if (!read_text(path, text, sizeof text)) return kMaxThreads;
  const long long quota = number_in(text);
  snprintf(path, sizeof path, "/sys/fs/cgroup/cpu%s/cpu.cfs_period_us", group);
  return read_text(path, text, sizeof text) ? cpus(quota, number_in(text)) : kMaxThreads;
}

// The least of a group and all above it. In a container the path may be the host's: what is not there has no quota, and
// the walk ends at the mount's root, which then is the container's own group.
int lowest_quota(bool unified, char* group) {
  int lowest = kMaxThreads;
  for (;;) {
    const int quota = quota_of(unified, group);
    if (quota < lowest) lowest = quota;
    char* last = strrchr(group, '/');
    if (!last) return lowest;
    *last = '\0';
  }
}

// Whether "cpu" is one of the comma-separated controllers.
bool names_cpu(const char* controllers) {
  for (const char* name = controllers; name; name = strchr(name, ',')) {
    name += *name == ',';
    if (strncmp(name, "cpu", 3) == 0 && (name[3] == ',' || name[3] == '\0')) return true;
  }
  return false;
}

int from_quota() {
  char text[8192];
  if (!read_text("/proc/self/cgroup", text, sizeof text)) return kMaxThreads;
  int lowest = kMaxThreads;
  char* rest = nullptr;
  for (char* line = strtok_r(text, "\n", &rest); line; line = strtok_r(nullptr, "\n", &rest)) {
    // hierarchy:controllers:/path, with no controllers in the unified hierarchy
    char* controllers = strchr(line, ':');
    char* group = controllers ? strchr(controllers + 1, ':') : nullptr;
    if (!group || strlen(group) > 4096) continue;
    *group++ = '\0';
    ++controllers;
    const bool unified = *controllers == '\0';
    if (!unified && !names_cpu(controllers)) continue;
    const int quota = lowest_quota(unified, group);
    if (quota < lowest) lowest = quota;
  }
  return lowest;
}

int default_threads() {
  const int environment = from_environment();
  if (environment > 0) return environment;
  const int affinity = from_affinity(), quota = from_quota();
  return affinity < quota ? affinity : quota;
}

}  // namespace
}  // namespace kw::cpu

kw_status kw_set_num_threads(int32_t threads) {
  using namespace kw::cpu;
  if (threads < 0) {
    return kw::fail(KW_ERROR_INVALID_ARGUMENT,
                    "kw_set_num_threads: %d threads were asked for; pass 1 or more, or 0 for the default", threads);
  }
  const int wanted = threads > kMaxThreads ? kMaxThreads : threads;
  if (__atomic_exchange_n(&asked, wanted, __ATOMIC_RELAXED) != wanted) forget_refusal();
  return KW_OK;
}

int32_t kw_num_threads(void) {
  using namespace kw::cpu;
  const int wanted = __atomic_load_n(&asked, __ATOMIC_RELAXED);
  if (wanted > 0) return wanted;
  int count = __atomic_load_n(&usual, __ATOMIC_RELAXED);
  if (count == 0) {
    count = default_threads();
    __atomic_store_n(&usual, count, __ATOMIC_RELAXED);
  }
  return count;
}
