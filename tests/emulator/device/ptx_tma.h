// SPDX-License-Identifier: MIT
// Boxes of tensors to and from shared memory, and stores of bytes (runtime/boxes.cpp).
#pragma once

#include "emulated.h"

namespace ptx {

using namespace emulated;

#define PTX_BOXES(rank)                                                                                             \
  inline void cp_async_bulk_tensor_##rank##d_shared_cluster_global_mbarrier_complete_tx_bytes(                      \
      u32 to, const Box<rank>& from, u32 barrier, u64 = 0) {                                                        \
    emulated_load_box(to, from.map, rank, from.at, barrier, 0);                                                     \
  }                                                                                                                 \
  inline void cp_async_bulk_tensor_##rank##d_shared_cluster_global_mbarrier_complete_tx_bytes_multicast_cluster(    \
      u32 to, const Box<rank>& from, u32 barrier, u16 blocks, u64 = 0) {                                            \
    if (blocks == 0) emulated_fault("cp.async.bulk.tensor.multicast to no block");                                  \
    emulated_load_box(to, from.map, rank, from.at, barrier, blocks);                                                \
  }                                                                                                                 \
  inline void cp_async_bulk_prefetch_tensor_##rank##d_L2_global(const Box<rank>& from) {                            \
    emulated_describes(from.map);                                                                                   \
  }                                                                                                                 \
  inline void cp_async_bulk_tensor_##rank##d_global_shared_cta_bulk_group(const Box<rank>& to, u32 from, u64 = 0) { \
    emulated_store_box(to.map, rank, to.at, from, emulated_store);                                                  \
  }                                                                                                                 \
  inline void cp_reduce_async_bulk_tensor_##rank##d_global_shared_cta_add_tile_bulk_group(const Box<rank>& to,      \
                                                                                          u32 from, u64 = 0) {      \
    emulated_store_box(to.map, rank, to.at, from, emulated_add);                                                    \
  }
PTX_BOXES(2)
PTX_BOXES(3)
PTX_BOXES(4)
PTX_BOXES(5)

inline void cp_async_bulk_global_shared_cta_bulk_group(u64 to, u32 from, u32 bytes) {
  emulated_store_bulk(to, from, bytes, emulated_store);
}
inline void cp_reduce_async_bulk_global_shared_cta_bulk_group_add_f32(u64 to, u32 from, u32 bytes) {
  emulated_store_bulk(to, from, bytes, emulated_add_f32);
}
inline void cp_async_bulk_commit_group() { emulated_stores_commit(); }
inline void cp_async_bulk_wait_group(u32 left) { emulated_stores_wait(left, false); }
inline void cp_async_bulk_wait_group_read(u32 left) { emulated_stores_wait(left, true); }

inline void prefetch_tensormap(u64 map) { emulated_describes(map); }

inline void fence_proxy_async_shared_cta() { emulated_proxy_fence(); }

}  // namespace ptx
