// SPDX-License-Identifier: MIT
// A call of parallel_for as its threads see it.
#pragma once

#include "modes.h"

namespace kw::cpu {

struct Job {
  void (*body)(const void*, int64_t, int64_t);
  const void* context;
  int64_t count, part;  // items in all, and in each part
  Modes modes;          // the caller's
};

// Runs parts until none is left. `next` is the first item that nobody took, and shared by all threads.
inline void take_parts(const Job& job, int64_t* next) {
  for (;;) {
    const int64_t begin = __atomic_fetch_add(next, job.part, __ATOMIC_RELAXED);
    if (begin >= job.count) return;
    job.body(job.context, begin, job.part < job.count - begin ? begin + job.part : job.count);
  }
}

}  // namespace kw::cpu
