// SPDX-License-Identifier: MIT
// The CPU path's threads: started on first use, rebuilt after fork, as many as kw_set_num_threads says.
#pragma once

#include <kernelwright/base.h>

namespace kw::cpu {

// More than these are not started, whatever is asked for.
constexpr int kMaxThreads = 1024;

// Calls body(context, begin, end) for parts that cover [0, count) once, on several threads, and waits.
// A part holds at least `grain` items (the last may hold fewer), so that a small job stays on this thread. Falls back
// to this thread alone when no thread can be started, and while another thread (or a body further up this one's stack)
// has the workers: callers never wait for each other. Every part runs under the caller's floating-point modes.
void parallel_for(int64_t count, int64_t grain, void (*body)(const void* context, int64_t begin, int64_t end),
                  const void* context);

// Lets the pool try again to start threads that the system refused before.
void forget_refusal();

}  // namespace kw::cpu
