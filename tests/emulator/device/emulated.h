// SPDX-License-Identifier: MIT
// What the emulated GPU (runtime/) does for translated sources, and the small tools of translate.py.
#pragma once

#include <stddef.h>
#include <string.h>

#pragma GCC visibility push(default)
extern "C" {

struct EmulatedIndex {
  unsigned x, y, z;
};

// Where the thread stands: it never changes, so a compiler may ask once.
EmulatedIndex emulated_thread_index(void) __attribute__((const));
EmulatedIndex emulated_block_index(void) __attribute__((const));
EmulatedIndex emulated_block_size(void) __attribute__((const));
EmulatedIndex emulated_grid_size(void) __attribute__((const));

// Ends the launch with this message, after the kernel, the block and the thread.
[[noreturn]] void emulated_fault(const char* format, ...) __attribute__((format(printf, 1, 2)));

// Barrier `id` of `threads` threads; 0: all of the block that have not ended.
void emulated_barrier(unsigned id, unsigned threads);

// Waits for all lanes of the mask with the same instruction; the last one combines what they brought, by lane.
typedef void (*EmulatedCombine)(void* const brought[32], unsigned lanes);
void emulated_meet(const char* what, unsigned lanes, void* brought, EmulatedCombine combine);

void* emulated_static_shared(const void* key, size_t bytes, size_t align);
void* emulated_dynamic_shared(void);
unsigned emulated_shared_address(const void* address);
unsigned emulated_address_in_cluster(unsigned address, unsigned rank);

// The memory behind an address, checked: `what` names the instruction.
void* emulated_shared(const char* what, unsigned address, unsigned bytes, bool written);
void* emulated_global(const char* what, unsigned long long address, unsigned bytes, bool written);
void emulated_read_only(const char* what, unsigned long long address);

// Copies that take effect at their wait, or at once: the launch's schedule mode decides.
void emulated_copy_async(unsigned to, unsigned long long from, unsigned bytes, unsigned given);
void emulated_copies_commit(void);
void emulated_copies_wait(unsigned left);
void emulated_prefetch_bulk(unsigned long long from, unsigned bytes);

// Boxes of tensors, at so many coordinates. `blocks`: of the cluster those that get it, a bit each; 0: the own one.
enum { emulated_store, emulated_add, emulated_add_f32 };
void emulated_load_box(unsigned to, unsigned long long map, unsigned rank, const int* at, unsigned barrier,
                       unsigned blocks);
void emulated_store_box(unsigned long long map, unsigned rank, const int* at, unsigned from, unsigned how);
void emulated_store_bulk(unsigned long long to, unsigned from, unsigned bytes, unsigned how);
void emulated_stores_commit(void);
void emulated_stores_wait(unsigned left, bool read_only);
void emulated_describes(unsigned long long map);
void emulated_proxy_fence(void);

// Products by a warpgroup, each warp its own 16 rows: `sums` are a lane's registers, columns / 2 of 32 bits.
enum { emulated_f16, emulated_bf16, emulated_e4m3, emulated_s8 };
struct EmulatedProduct {
  unsigned type, columns;
  bool left_shared, add, left_transposed, right_transposed;
  unsigned left[4];
  unsigned long long left_matrix, right;
  void* const* sums;
};
void emulated_wgmma(const char* what, struct EmulatedProduct* of);
void emulated_wgmma_fence(void);
void emulated_wgmma_commit(void);
void emulated_wgmma_wait(unsigned left);
void emulated_registers(unsigned count, bool more);

void emulated_copy_bulk(unsigned to, unsigned long long from, unsigned bytes, unsigned barrier);

void emulated_barrier_init(unsigned barrier, unsigned arrivals);
void emulated_barrier_arrive(unsigned barrier, unsigned more_bytes);  // of any block of the cluster
bool emulated_barrier_wait(unsigned barrier, unsigned parity);
void emulated_store_async(unsigned to, const void* data, unsigned bytes, unsigned barrier);
void emulated_cluster_arrive(bool in_order);
void emulated_cluster_wait(void);
void emulated_previous_kernel(void);
void emulated_next_kernel(void);

}  // extern "C"
#pragma GCC visibility pop

namespace emulated {

using u16 = unsigned short;
using u32 = unsigned;
using u64 = unsigned long long;

inline void* static_shared(const void* key, size_t bytes, size_t align) {
  return emulated_static_shared(key, bytes, align);
}
inline void* dynamic_shared() { return emulated_dynamic_shared(); }

// A C++ value as a register, and back.
template <class To, class From>
inline To given(const From& value) {
  return static_cast<To>(value);
}
template <class To, class From>
inline To given(From* value) {
  return reinterpret_cast<To>(value);
}
template <class To, class From>
inline void take(To& to, From value) {
  to = static_cast<To>(value);
}
template <class To, class From>
inline void take(To*& to, From value) {
  to = reinterpret_cast<To*>(value);
}

// The operand {a, b, …} of an instruction.
template <class T, int kCount>
struct Several {
  T* at[kCount];
};

template <class T, class... More>
inline Several<T, 1 + sizeof...(More)> several(T& first, More&... more) {
  return {{&first, &more...}};
}

// The operand [map, {column, row, …}] of an instruction.
template <int kRank>
struct Box {
  u64 map;
  int at[kRank];
};
template <int kRank>
inline Box<kRank> box(u64 map, const Several<u32, kRank>& at) {
  Box<kRank> of = {map, {}};
  for (int i = 0; i < kRank; ++i) of.at[i] = static_cast<int>(*at.at[i]);
  return of;
}

// The operand _ of an instruction.
struct Nowhere {
  template <class T>
  void operator=(const T&) const {}
};
constexpr Nowhere nowhere{};

template <class To, class From>
inline To bits(const From& value) {
  static_assert(sizeof(To) == sizeof(From), "a register holds as many bits as it holds");
  To to;
  memcpy(&to, &value, sizeof to);
  return to;
}

}  // namespace emulated
