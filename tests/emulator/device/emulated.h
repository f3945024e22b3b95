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

// Copies that take effect at their wait, or at once: the launch's temper decides.
void emulated_copy_async(unsigned to, unsigned long long from, unsigned bytes, unsigned given);
void emulated_copies_commit(void);
void emulated_copies_wait(unsigned left);
void emulated_prefetch_bulk(unsigned long long from, unsigned bytes);
void emulated_copy_box(unsigned to, unsigned long long map, unsigned column, unsigned row, unsigned barrier);
void emulated_prefetch_box(unsigned long long map);
void emulated_copy_bulk(unsigned to, unsigned long long from, unsigned bytes, unsigned barrier);

void emulated_barrier_init(unsigned barrier, unsigned arrivals);
void emulated_barrier_arrive(unsigned barrier, unsigned more_bytes);
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

// The operand [map, {column, row}] of an instruction.
struct Box {
  u64 map;
  u32 column, row;
};
inline Box box(u64 map, const Several<u32, 2>& at) { return {map, *at.at[0], *at.at[1]}; }

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
