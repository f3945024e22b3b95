// SPDX-License-Identifier: MIT
// Instructions that move data, under the names that translate.py gives them: hints for caches are left out.
#pragma once

#include "emulated.h"

namespace ptx {

using namespace emulated;

template <class T, int kCount>
inline void load_all(const void* from, const Several<T, kCount>& to) {
  for (int i = 0; i < kCount; ++i) memcpy(to.at[i], static_cast<const T*>(from) + i, sizeof(T));
}

template <class T, int kCount>
inline void store_all(void* to, const Several<T, kCount>& from) {
  for (int i = 0; i < kCount; ++i) memcpy(static_cast<T*>(to) + i, from.at[i], sizeof(T));
}

// ld and st of one type: a single register, two, four. A load may have a policy for L2.
#define PTX_LOAD_STORE(space, address, type, bits)                                             \
  inline void ld_##space##_##type(bits& to, address from, u64 = 0) {                           \
    load_all(emulated_##space("ld." #space "." #type, from, sizeof to, false), several(to));   \
  }                                                                                            \
  inline void ld_##space##_v2_##type(const Several<bits, 2>& to, address from, u64 = 0) {      \
    load_all(emulated_##space("ld." #space ".v2." #type, from, 2 * sizeof(bits), false), to);  \
  }                                                                                            \
  inline void ld_##space##_v4_##type(const Several<bits, 4>& to, address from, u64 = 0) {      \
    load_all(emulated_##space("ld." #space ".v4." #type, from, 4 * sizeof(bits), false), to);  \
  }                                                                                            \
  inline void st_##space##_##type(address to, bits from, u64 = 0) {                            \
    store_all(emulated_##space("st." #space "." #type, to, sizeof from, true), several(from)); \
  }                                                                                            \
  inline void st_##space##_v2_##type(address to, const Several<bits, 2>& from, u64 = 0) {      \
    store_all(emulated_##space("st." #space ".v2." #type, to, 2 * sizeof(bits), true), from);  \
  }                                                                                            \
  inline void st_##space##_v4_##type(address to, const Several<bits, 4>& from, u64 = 0) {      \
    store_all(emulated_##space("st." #space ".v4." #type, to, 4 * sizeof(bits), true), from);  \
  }

#define PTX_LOAD_STORES(type, bits)                                            \
  PTX_LOAD_STORE(global, u64, type, bits)                                      \
  PTX_LOAD_STORE(shared, u32, type, bits)                                      \
  template <class To>                                                          \
  inline void ld_global_nc_##type(To& to, u64 from, u64 policy = 0) {          \
    emulated_read_only("ld.global.nc." #type, from);                           \
    ld_global_##type(to, from, policy);                                        \
  }                                                                            \
  template <class To>                                                          \
  inline void ld_global_nc_v2_##type(const To& to, u64 from, u64 policy = 0) { \
    emulated_read_only("ld.global.nc.v2." #type, from);                        \
    ld_global_v2_##type(to, from, policy);                                     \
  }                                                                            \
  template <class To>                                                          \
  inline void ld_global_nc_v4_##type(const To& to, u64 from, u64 policy = 0) { \
    emulated_read_only("ld.global.nc.v4." #type, from);                        \
    ld_global_v4_##type(to, from, policy);                                     \
  }

PTX_LOAD_STORES(u16, u16)
PTX_LOAD_STORES(b16, u16)
PTX_LOAD_STORES(u32, u32)
PTX_LOAD_STORES(b32, u32)
PTX_LOAD_STORES(f32, float)
PTX_LOAD_STORES(u64, u64)
PTX_LOAD_STORES(b64, u64)

inline void red_global_add_f32(u64 to, float value) {
  float sum;
  memcpy(&sum, emulated_global("red.global.add.f32", to, sizeof sum, false), sizeof sum);
  sum += value;
  memcpy(emulated_global("red.global.add.f32", to, sizeof sum, true), &sum, sizeof sum);
}

// Blocks run one after the other, and all that an earlier one wrote is there.
inline void ld_acquire_gpu_global_u32(u32& to, u64 from) { ld_global_u32(to, from); }
inline void st_release_gpu_global_u32(u64 to, u32 from) { st_global_u32(to, from); }

// A byte is loaded into a wider register.
template <class T>
inline void ld_global_u8(T& to, u64 from) {
  to = *static_cast<const unsigned char*>(emulated_global("ld.global.u8", from, 1, false));
}
template <class T>
inline void ld_shared_u8(T& to, u32 from) {
  to = *static_cast<const unsigned char*>(emulated_shared("ld.shared.u8", from, 1, false));
}
template <class T>
inline void st_global_u8(u64 to, T from) {
  *static_cast<unsigned char*>(emulated_global("st.global.u8", to, 1, true)) = static_cast<unsigned char>(from);
}
template <class T>
inline void st_shared_u8(u32 to, T from) {
  *static_cast<unsigned char*>(emulated_shared("st.shared.u8", to, 1, true)) = static_cast<unsigned char>(from);
}
template <class T>
inline void ld_global_nc_u8(T& to, u64 from) {
  emulated_read_only("ld.global.nc.u8", from);
  ld_global_u8(to, from);
}

inline void prefetch_global_L2(u64) {}  // of memory that nothing is known of yet

inline void cp_async_bulk_prefetch_L2_global(u64 from, u32 bytes) { emulated_prefetch_bulk(from, bytes); }

inline void createpolicy_fractional_b64(u64& policy, double) { policy = 0; }

// From a generic address to one of shared memory, in the two instructions of a wrapper.
inline void cvta_to_shared_u64(u64& to, u64 from) { to = emulated_shared_address(reinterpret_cast<const void*>(from)); }
inline void mapa_shared_cluster_u32(u32& to, u32 address, u32 rank) { to = emulated_address_in_cluster(address, rank); }

inline void red_global_add_v4_f32(u64 to, const Several<float, 4>& values) {
  for (int i = 0; i < 4; ++i) red_global_add_f32(to + 4 * i, *values.at[i]);
}

inline void cp_async_shared_global(u32 to, u64 from, u32 bytes, u32 given) {
  emulated_copy_async(to, from, bytes, given);
}
inline void cp_async_shared_global(u32 to, u64 from, u32 bytes) { emulated_copy_async(to, from, bytes, bytes); }
inline void cp_async_commit_group() { emulated_copies_commit(); }
inline void cp_async_wait_group(u32 left) { emulated_copies_wait(left); }
inline void cp_async_wait_all() {
  emulated_copies_commit();
  emulated_copies_wait(0);
}
inline void cp_async_bulk_shared_cluster_global_mbarrier_complete_tx_bytes(u32 to, u64 from, u32 bytes, u32 barrier,
                                                                           u64 = 0) {
  emulated_copy_bulk(to, from, bytes, barrier);
}

inline void st_async_shared_cluster_mbarrier_complete_tx_bytes_f32(u32 to, float from, u32 barrier) {
  emulated_store_async(to, &from, sizeof from, barrier);
}
inline void st_async_shared_cluster_mbarrier_complete_tx_bytes_v4_u32(u32 to, const Several<u32, 4>& from,
                                                                      u32 barrier) {
  u32 word[4];
  store_all(word, from);
  emulated_store_async(to, word, sizeof word, barrier);
}

}  // namespace ptx
