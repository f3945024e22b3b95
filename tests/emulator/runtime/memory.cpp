// SPDX-License-Identifier: MIT
// Whose memory an address is. Global memory is what a test has told of (emulator_memory), to the byte: what was never
// written cannot be read, what is not to be written cannot be. Shared memory begins poisoned.
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "../device/emulated.h"
#include "machine.h"

namespace emulator {

unsigned char *stacks, *stacks_end, *arenas, *arenas_end;

namespace {

struct Memory {
  unsigned char *begin, *end;
  unsigned char* written;  // of each byte whether it has been
  bool writable;
  char name[48];
};

constexpr int kMost = 64;
Memory memories[kMost];
int memory_count;
Memory* last = memories;  // most accesses are to the same as the one before
uintptr_t image_begin, image_end;

unsigned char* reserve(size_t bytes) {
  void* place = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (place == MAP_FAILED) abort();
  return static_cast<unsigned char*>(place);
}

void reserve_once() {
  if (stacks != nullptr) return;
  stacks = reserve(kStackBytes * kMaxThreads * kMaxCluster);
  stacks_end = stacks + kStackBytes * kMaxThreads * kMaxCluster;
  arenas = reserve(kArenaBytes * kMaxCluster);
  arenas_end = arenas + kArenaBytes * kMaxCluster;
  unsigned char* flying = reserve(kArenaBytes * kMaxCluster);
  auto* reading = reinterpret_cast<uint16_t*>(reserve(kArenaBytes * kMaxCluster / 16 * sizeof(uint16_t)));
  for (unsigned i = 0; i < kMaxCluster; ++i) {
    blocks[i].shared = arenas + i * kArenaBytes;
    blocks[i].flying = flying + i * kArenaBytes;
    blocks[i].reading = reading + i * kArenaBytes / 16;
  }
}

Memory* memory_at(const unsigned char* address) {
  if (address >= last->begin && address < last->end) return last;
  for (int i = 0; i < memory_count; ++i) {
    if (address >= memories[i].begin && address < memories[i].end) return last = &memories[i];
  }
  return nullptr;
}

[[noreturn]] void outside(const char* what, const unsigned char* address, size_t bytes, bool written) {
  const Memory* nearest = nullptr;
  size_t distance = SIZE_MAX;
  for (int i = 0; i < memory_count; ++i) {
    const Memory& m = memories[i];
    const size_t away =
        address < m.begin ? static_cast<size_t>(m.begin - address) : static_cast<size_t>(address + bytes - m.end);
    if (away < distance) distance = away, nearest = &m;
  }
  if (nearest == nullptr) fault("%s: %p is nobody's memory", what, static_cast<const void*>(address));
  const bool before = address < nearest->begin;
  fault("%s %s %zu bytes, %zu %s the %s of %s (%zu bytes)", what, written ? "writes" : "reads", bytes, distance,
        before ? "before" : "past", before ? "beginning" : "end", nearest->name,
        static_cast<size_t>(nearest->end - nearest->begin));
}

void* checked(const char* what, unsigned char* address, size_t bytes, bool written) {
  Memory* memory = memory_at(address);
  if (memory == nullptr || address + bytes > memory->end) outside(what, address, bytes, written);
  if (launch.overlap && !current->previous_done && (memory->writable || !begun_in_order)) {
    fault("%s touches %s before griddepcontrol.wait", what, memory->name);
  }
  unsigned char* state = memory->written + (address - memory->begin);
  if (written) {
    if (!memory->writable) fault("%s writes to %s, which is not to be written", what, memory->name);
    memset(state, 1, bytes);
  } else if (memchr(state, 0, bytes) != nullptr) {
    fault("%s reads %zu bytes at byte %zu of %s, where nothing was ever written", what, bytes,
          static_cast<size_t>(address - memory->begin), memory->name);
  }
  return address;
}

int find_image(dl_phdr_info* object, size_t, void* inside) {
  const auto address = reinterpret_cast<uintptr_t>(inside);
  uintptr_t begin = UINTPTR_MAX, end = 0;
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const auto& segment = object->dlpi_phdr[i];
    if (segment.p_type != PT_LOAD) continue;
    const uintptr_t from = object->dlpi_addr + segment.p_vaddr, to = from + segment.p_memsz;
    begin = from < begin ? from : begin;
    end = to > end ? to : end;
  }
  if (address < begin || address >= end) return 0;
  image_begin = begin, image_end = end;
  return 1;
}

}  // namespace

void image_lies_at(const void* something_in_it) { dl_iterate_phdr(find_image, const_cast<void*>(something_in_it)); }

bool in_stacks(const void* address) { return address >= stacks && address < stacks_end; }

void begin_block(Block* block) {
  reserve_once();
  block->static_count = 0;
  block->static_end = kFirstStatic;
  block->static_bytes = 0;
  all_are_in_order(block);
  memset(block->shared + dynamic_at(), kPoison, launch.shared);
}

// What a launch that went wrong left on its way.
void forget_flights() {
  for (Block& block : blocks) {
    memset(block.flying, 0, kArenaBytes);
    memset(block.reading, 0, kArenaBytes / 16 * sizeof(uint16_t));
  }
}

unsigned char* shared_bytes(const char* what, Block* block, size_t offset, size_t bytes) {
  bool inside = offset >= dynamic_at() && offset + bytes <= dynamic_at() + launch.shared;
  for (unsigned i = 0; i < block->static_count && !inside; ++i) {
    const Static& variable = block->statics[i];
    inside = offset >= variable.offset && offset + bytes <= variable.offset + variable.bytes;
  }
  if (!inside) {
    const size_t part = offset >= dynamic_at() ? dynamic_at() : kFirstStatic;
    fault("%s: %zu bytes at byte %td of the %s shared memory are in no variable of the block (%u bytes dynamic)", what,
          bytes, static_cast<ptrdiff_t>(offset - part), part == dynamic_at() ? "dynamic" : "static", launch.shared);
  }
  if (memchr(block->flying + offset, 1, bytes) != nullptr) {
    fault("%s: a copy to these %zu bytes of shared memory was not waited for", what, bytes);
  }
  return block->shared + offset;
}

// As by a copy from outside.
void was_written(void* begin, size_t bytes) {
  auto* at = static_cast<unsigned char*>(begin);
  Memory* memory = memory_at(at);
  if (memory != nullptr && at + bytes <= memory->end) memset(memory->written + (at - memory->begin), 1, bytes);
  next_in_order = false;
}

void forget_memory(void* begin) {
  for (int i = 0; i < memory_count; ++i) {
    if (memories[i].begin != begin) continue;
    free(memories[i].written);
    memories[i] = memories[--memory_count];
    memories[memory_count] = {};
    last = memories;
    return;
  }
}

void check_plain(const void* address, size_t bytes, bool written) {
  if (current == nullptr) return;
  const char* what = written ? "a plain store" : "a plain load";
  if (in_stacks(address)) {
    const char* flies = accumulator_at(address, bytes);
    if (flies != nullptr) fault("%s touches a sum of %s, which was not waited for", what, flies);
    return;
  }
  auto* at = static_cast<unsigned char*>(const_cast<void*>(address));
  if (at >= arenas && at < arenas_end) {
    Block* block = &blocks[static_cast<size_t>(at - arenas) / kArenaBytes];
    if (block != current->block) fault("%s touches the shared memory of block %u", what, block->index);
    const auto offset = static_cast<size_t>(at - block->shared);
    shared_bytes(what, block, offset, bytes);
    return shared_access(what, block, offset, bytes, written);
  }
  const auto number = reinterpret_cast<uintptr_t>(address);
  const auto parameters = reinterpret_cast<uintptr_t>(launch.parameters);
  if (!written && number >= parameters && number + bytes <= parameters + launch.kernel->parameter_bytes) return;
  if (!written && number >= image_begin && number + bytes <= image_end) return;  // constants
  checked(what, at, bytes, written);
}

}  // namespace emulator

using namespace emulator;

extern "C" {

void* emulated_global(const char* what, unsigned long long address, unsigned bytes, bool written) {
  if (address % bytes != 0) fault("%s: the address %#llx is no multiple of %u", what, address, bytes);
  return checked(what, reinterpret_cast<unsigned char*>(address), bytes, written);
}

// Reads nothing: what is there may be another kernel's to write yet. But it is there.
void emulated_prefetch_bulk(unsigned long long from, unsigned bytes) {
  constexpr const char* kWhat = "cp.async.bulk.prefetch";
  if (from % 16 != 0 || bytes % 16 != 0)
    fault("%s of %u bytes from %#llx: both must be multiples of 16", kWhat, bytes, from);
  auto* address = reinterpret_cast<const unsigned char*>(from);
  const Memory* memory = memory_at(address);
  if (memory == nullptr || address + bytes > memory->end) outside(kWhat, address, bytes, false);
}

void emulated_read_only(const char* what, unsigned long long address) {
  const Memory* memory = memory_at(reinterpret_cast<unsigned char*>(address));
  if (memory != nullptr && memory->writable) fault("%s reads %s, which the kernel may write", what, memory->name);
}

void* emulated_static_shared(const void* key, size_t bytes, size_t align) {
  Block* block = current->block;
  for (unsigned i = 0; i < block->static_count; ++i) {
    if (block->statics[i].key == key) return block->shared + block->statics[i].offset;
  }
  if (block->static_count == sizeof block->statics / sizeof block->statics[0]) fault("too many shared variables");
  size_t offset = (block->static_end + align - 1) / align * align;
  if (offset % (2 * align) == 0) offset += align;  // no better aligned than asked for
  block->static_bytes += bytes;
  if (block->static_bytes > kMostStatic || offset + bytes > dynamic_at()) {
    fault("%zu bytes of static shared memory; a block has %zu", block->static_bytes, kMostStatic);
  }
  block->statics[block->static_count++] = {key, offset, bytes};
  block->static_end = offset + bytes + kWarp;  // and some bytes of nobody
  memset(block->shared + offset, kPoison, bytes);
  return block->shared + offset;
}

void* emulated_dynamic_shared() { return current->block->shared + dynamic_at(); }

// What the test knows of memory; `name` is for messages.
__attribute__((visibility("default"))) int emulator_memory(void* begin, size_t bytes, int written, int writable,
                                                           const char* name) {
  if (memory_count == kMost) return 1;
  next_in_order = false;
  Memory& memory = memories[memory_count++];
  memory.begin = static_cast<unsigned char*>(begin);
  memory.end = memory.begin + bytes;
  memory.written = static_cast<unsigned char*>(malloc(bytes + 1));
  memset(memory.written, written, bytes);
  memory.writable = writable != 0;
  snprintf(memory.name, sizeof memory.name, "%s", name);
  return 0;
}

__attribute__((visibility("default"))) void emulator_forget() {
  while (memory_count > 0) free(memories[--memory_count].written);
  memset(memories, 0, sizeof memories);
  last = memories;
}

}  // extern "C"
