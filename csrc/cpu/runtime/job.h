// SPDX-License-Identifier: MIT
// A call of parallel_for as its threads see it.
#pragma once

#include "cpu/runtime/modes.h"

namespace kw::cpu {

struct Job {
  void (*body)(const void*, int64_t, int64_t);
  const void* context;
  int64_t count, part;  // items in all, and in each part
  int64_t share;        // items that are one thread's first, in their order: whole parts
  int threads;
  Modes modes;  // the caller's
};

// Runs parts until none is left: first those of thread `self`, then what the others have left of theirs. So a thread
// gets the same items each time: results lie where the last call's lay as a rule, in the cache of the core that wrote
// them, and another core would have to fetch them from there.
// `taken` is how far into each thread's share all is taken; all threads see the same.
inline void take_parts(const Job& job, int64_t* taken, int self) {
  for (int i = 0; i < job.threads; ++i) {
    const int whose = self + i < job.threads ? self + i : self + i - job.threads;
    const int64_t first = whose * job.share;
    if (first >= job.count) continue;
    const int64_t size = job.share < job.count - first ? job.share : job.count - first;
    while (__atomic_load_n(&taken[whose], __ATOMIC_RELAXED) < size) {
      const int64_t begin = __atomic_fetch_add(&taken[whose], job.part, __ATOMIC_RELAXED);
      if (begin >= size) break;
      job.body(job.context, first + begin, first + (job.part < size - begin ? begin + job.part : size));
    }
  }
}

}  // namespace kw::cpu
