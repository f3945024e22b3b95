// SPDX-License-Identifier: MIT
// Instructions by which threads wait for each other, or for the kernel before.
#pragma once

#include "emulated.h"

namespace ptx {

using namespace emulated;

inline void griddepcontrol_launch_dependents() { emulated_next_kernel(); }
inline void griddepcontrol_wait() { emulated_previous_kernel(); }

inline void bar_sync(u32 id, u32 threads) { emulated_barrier(id, threads); }
inline void bar_sync(u32 id) { emulated_barrier(id, 0); }
inline void bar_warp_sync(u32 lanes) { emulated_meet("bar.warp.sync", lanes, nullptr, nullptr); }

// Of these lanes the first.
inline void elect_sync(bool& mine, u32 lanes) {
  emulated_meet("elect.sync", lanes, nullptr, nullptr);
  mine = emulated_thread_index().x % 32 == static_cast<u32>(__builtin_ctz(lanes));
}

inline void mbarrier_init_shared_cta_b64(u32 barrier, u32 arrivals) { emulated_barrier_init(barrier, arrivals); }
inline void fence_mbarrier_init_release_cluster() {}
inline void mbarrier_arrive_expect_tx_shared_cta_b64(Nowhere, u32 barrier, u32 bytes) {
  emulated_barrier_arrive(barrier, bytes);
}
inline void mbarrier_arrive_shared_cta_b64(Nowhere, u32 barrier) { emulated_barrier_arrive(barrier, 0); }
inline void mbarrier_arrive_shared_cluster_b64(Nowhere, u32 barrier) {
  emulated_barrier_arrive(barrier, 0);
}
inline void mbarrier_try_wait_parity_acquire_cluster_shared_cta_b64(bool& done, u32 barrier, u32 parity) {
  done = emulated_barrier_wait(barrier, parity);
}
inline void mbarrier_try_wait_parity_acquire_cta_shared_cta_b64(bool& done, u32 barrier, u32 parity) {
  done = emulated_barrier_wait(barrier, parity);
}

inline void barrier_cluster_arrive_relaxed_aligned() { emulated_cluster_arrive(false); }
inline void barrier_cluster_arrive_release_aligned() { emulated_cluster_arrive(true); }
inline void barrier_cluster_arrive_aligned() { emulated_cluster_arrive(true); }
inline void barrier_cluster_wait_acquire_aligned() { emulated_cluster_wait(); }
inline void barrier_cluster_wait_aligned() { emulated_cluster_wait(); }

// What a lane brings to a vote, and what all get.
struct Vote {
  bool mine, any;
};

inline void vote_sync_any_pred(bool& to, bool mine, u32 lanes) {
  Vote vote = {mine, false};
  emulated_meet("vote.sync.any", lanes, &vote, [](void* const brought[32], u32 all) {
    bool any = false;
    for (u32 lane = 0; lane < 32; ++lane) any |= (all >> lane & 1) != 0 && static_cast<Vote*>(brought[lane])->mine;
    for (u32 lane = 0; lane < 32; ++lane) {
      if ((all >> lane & 1) != 0) static_cast<Vote*>(brought[lane])->any = any;
    }
  });
  to = vote.any;
}

// What a lane brings to a shuffle. `bounds` is PTX's operand c: the highest or lowest lane, and where segments end.
struct Shuffled {
  u32 value, operand, bounds, result;
};

// From which lane the value comes, and whether there is one: kUp, when it is not below the bound, else not above it.
template <bool kUp, class Source>
inline void shuffle_lanes(void* const brought[32], u32 lanes, Source source) {
  for (u32 lane = 0; lane < 32; ++lane) {
    if ((lanes >> lane & 1) == 0) continue;
    auto* mine = static_cast<Shuffled*>(brought[lane]);
    const u32 segments = mine->bounds >> 8 & 31, bound = (lane & segments) | (mine->bounds & 31 & ~segments);
    const u32 from = source(lane, mine->operand & 31, segments);
    const bool exists = kUp ? from >= bound && from < 32 : from <= bound;
    const u32 chosen = exists ? from : lane;
    if ((lanes >> chosen & 1) == 0) {
      emulated_fault("a shuffle reads lane %u, which has no part in it (lanes %08x)", chosen, lanes);
    }
    mine->result = static_cast<const Shuffled*>(brought[chosen])->value;
  }
}

template <class T>
inline void shuffle(const char* what, T& to, T from, u32 operand, u32 bounds, u32 lanes, EmulatedCombine combine) {
  Shuffled mine = {bits<u32>(from), operand, bounds, 0};
  emulated_meet(what, lanes, &mine, combine);
  to = bits<T>(mine.result);
}

#define PTX_SHUFFLE(mode, up, source)                                                                          \
  template <class T>                                                                                           \
  inline void shfl_sync_##mode##_b32(T& to, T from, u32 operand, u32 bounds, u32 lanes) {                      \
    shuffle("shfl.sync." #mode, to, from, operand, bounds, lanes, [](void* const brought[32], u32 all) {       \
      shuffle_lanes<up>(brought, all, [](u32 lane, u32 by, [[maybe_unused]] u32 segments) { return source; }); \
    });                                                                                                        \
  }
PTX_SHUFFLE(bfly, false, lane ^ by)
PTX_SHUFFLE(idx, false, (lane & segments) | (by & ~segments))
PTX_SHUFFLE(up, true, lane - by)
PTX_SHUFFLE(down, false, lane + by)

}  // namespace ptx
