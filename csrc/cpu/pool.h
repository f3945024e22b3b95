// SPDX-License-Identifier: MIT
// The CPU path's threads: started on first use, rebuilt after fork, as many as kw_set_num_threads says.
#pragma once

#include <kernelwright/base.h>

namespace kw::cpu {

// Calls body(context, begin, end) for parts that cover [0, count) once, on several threads, and waits.
// A part holds at least `grain` items (the last may hold fewer), so that a small job stays on this thread. Falls back to this
// thread alone when no thread can be started. Calls from several threads at once are served one after the other.
void parallel_for(int64_t count, int64_t grain, void (*body)(void* context, int64_t begin, int64_t end), void* context);

}  // namespace kw::cpu
