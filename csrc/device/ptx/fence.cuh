// SPDX-License-Identifier: MIT
// Order between ordinary accesses to shared memory and those of TMA and wgmma.
#pragma once

namespace kw {

#ifdef KW_HAS_TMA

// What this thread has stored in shared memory is there for TMA and wgmma. Each thread that stored does it, then the
// threads meet at a barrier, then one of them issues.
__device__ __forceinline__ void fence_proxy_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

#endif

}  // namespace kw
