// SPDX-License-Identifier: MIT
// Races for shared memory: two threads touch a word, one of them writes, and no barrier came between them. A sync of
// any kind is an event with a number. An access has the number of its warp's last event, and a thread has for each
// other one the event up to which it has seen what that one did. What shuffles and matrices wait for orders nothing.
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include "machine.h"

namespace emulator {
namespace {

constexpr unsigned kWarps = kMaxThreads / kWarp, kWord = 4;

struct Access {
  unsigned event;
  uint16_t thread;
  uint16_t bytes;  // of the word, a bit each; 0: no access. And whether all lanes of the warp did it
};
constexpr uint16_t kByWarp = 1 << 8;

// What is remembered of a word: one reader may hide a third one.
struct Word {
  Access write, reads[2];
};

struct Seen {
  unsigned events[kWarps];                   // the last one of each warp
  unsigned of_warps[kWarps][kWarps];         // of each warp by each warp
  unsigned of_lanes[kWarps][kWarp][kWarp];   // of each lane by each lane of its warp
  unsigned of_threads[kWarps][kMaxThreads];  // of each thread by each warp, as an mbarrier told it
};

// What those that arrive at an mbarrier have done and seen: in the phase that is under way, and in the one before. And
// of all phases the bytes that it was told to expect, less those that came.
struct Told {
  int64_t to_come;
  unsigned of_warps[2][kWarps], of_threads[2][kMaxThreads];
};
constexpr size_t kTold = 1024;  // mbarriers of a cluster: a power of two

Word* words;  // of all blocks' shared memory
Seen seen[kMaxCluster];
const void* told_barriers[kTold];  // found by address, or in the next place that is free
Told told[kTold];
unsigned event;

void add_later(unsigned* to, const unsigned* from, unsigned count) {
  for (unsigned i = 0; i < count; ++i) {
    if (from[i] > to[i]) to[i] = from[i];
  }
}

Told* told_at(const void* barrier) {
  const size_t first = reinterpret_cast<uintptr_t>(barrier) / sizeof(uint64_t);
  for (size_t i = 0; i < kTold; ++i) {
    const size_t place = (first + i) % kTold;
    if (told_barriers[place] == barrier) return &told[place];
    if (told_barriers[place] != nullptr) continue;
    told_barriers[place] = barrier;
    told[place] = {};
    return &told[place];
  }
  fault("the emulator remembers %zu mbarriers of a cluster, and there are more", kTold);
}

Word* word_of(const Block* block, size_t offset) {
  if (words == nullptr) {
    const size_t bytes = kMaxCluster * kArenaBytes / kWord * sizeof(Word);
    words = static_cast<Word*>(
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    if (words == MAP_FAILED) __builtin_trap();
  }
  return words + (block->rank * kArenaBytes + offset) / kWord;
}

bool in_order(const Block* block, unsigned thread, const Access& before) {
  if (before.thread == thread) return true;
  const Seen& by = seen[block->rank];
  const unsigned warp = thread / kWarp, other = before.thread / kWarp;
  if (before.event < by.of_threads[warp][before.thread]) return true;
  if ((before.bytes & kByWarp) != 0) {
    if (warp == other) return true;
    for (unsigned lane = 0; lane < kWarp; ++lane) {
      if (before.event < by.of_threads[warp][other * kWarp + lane]) return true;
    }
  }
  if (warp != other) return before.event < by.of_warps[warp][other];
  return before.event < by.of_lanes[warp][thread % kWarp][before.thread % kWarp];
}

void must_be_in_order(const char* what, const Block* block, size_t offset, unsigned bytes, const Access& before,
                      const char* did) {
  if ((before.bytes & bytes) == 0 || in_order(block, current->index, before)) return;
  const size_t part = offset >= dynamic_at() ? dynamic_at() : kFirstStatic;
  fault("%s at byte %zu of the %s shared memory, a race: thread %u %s there, and no barrier came between", what,
        offset - part, part == dynamic_at() ? "dynamic" : "static", before.thread, did);
}

void touch(const char* what, const Block* block, size_t offset, unsigned bytes, bool written, bool by_warp = false) {
  Word* word = word_of(block, offset);
  must_be_in_order(what, block, offset, bytes, word->write, "wrote");
  const unsigned thread = current->index;
  const Access now = {seen[block->rank].events[thread / kWarp], static_cast<uint16_t>(thread),
                      static_cast<uint16_t>(bytes | (by_warp ? kByWarp : 0u))};
  if (written) {
    for (const Access& read : word->reads) must_be_in_order(what, block, offset, bytes, read, "read");
    *word = {now, {}};
    return;
  }
  if (word->reads[0].bytes != 0 && word->reads[0].thread != thread) word->reads[1] = word->reads[0];
  word->reads[0] = now;
}

}  // namespace

unsigned last_event() { return event; }

// Later stores of the warp have a later event than those that are fenced.
void proxy_fence() { current->proxy_fence = seen[current->block->rank].events[current->index / kWarp] = ++event; }

void is_read(const Block* block, size_t offset, int more) {
  uint16_t* readers = block->reading + offset / 16;
  *readers = static_cast<uint16_t>(*readers + more);
}

bool is_being_read(const Block* block, size_t offset, size_t bytes) {
  for (size_t i = offset / 16; i <= (offset + bytes - 1) / 16; ++i) {
    if (block->reading[i] != 0) return true;
  }
  return false;
}

void shared_async_read(const char* what, const Block* block, size_t offset, size_t bytes, bool by_warp) {
  for (size_t at = offset; at < offset + bytes; at += kWord) {
    const Access& write = word_of(block, at)->write;
    if (write.bytes != 0 && write.event >= block->threads[write.thread].proxy_fence) {
      fault("%s reads what thread %u stored, and that thread had no fence.proxy.async after it", what, write.thread);
    }
    touch(what, block, at, 15, false, by_warp);
  }
}

// What other blocks do with their memory is not known here.
void shared_async_write(const char* what, const Block* block, size_t offset, size_t bytes) {
  if (is_being_read(block, offset, bytes)) {
    fault("%s is written to shared memory that wgmma or a store still reads: it was not waited for", what);
  }
  if (block != current->block) return;
  for (size_t at = offset; at < offset + bytes; at += kWord) {
    const Word* word = word_of(block, at);
    must_be_in_order(what, block, at, 15, word->write, "wrote");
    for (const Access& read : word->reads) must_be_in_order(what, block, at, 15, read, "read");
  }
}

void shared_access(const char* what, const Block* block, size_t offset, size_t bytes, bool written) {
  if (written && is_being_read(block, offset, bytes)) {
    fault("%s writes to shared memory that wgmma or a store still reads: it was not waited for", what);
  }
  for (size_t at = offset; at < offset + bytes;) {
    const size_t in_word = at % kWord, left = offset + bytes - at;
    const size_t count = left < kWord - in_word ? left : kWord - in_word;
    touch(what, block, at, ((1u << count) - 1) << in_word, written);
    at += count;
  }
}

// Nobody of the block wrote them: a copy of the cluster or of memory has arrived, which a barrier of its own tells of.
void shared_arrival(const Block* block, size_t offset, size_t bytes) {
  for (size_t at = offset; at < offset + bytes; at += kWord) *word_of(block, at) = {};
}

void forget_barriers() { memset(told_barriers, 0, sizeof told_barriers); }

void barrier_begins(const void* barrier) { *told_at(barrier) = {}; }

void barrier_expects(const void* barrier, int64_t bytes) { told_at(barrier)->to_come += bytes; }

int64_t bytes_untold() {
  int64_t most = 0;
  for (size_t i = 0; i < kTold; ++i) {
    if (told_barriers[i] != nullptr && -told[i].to_come > most) most = -told[i].to_come;
  }
  return most;
}

// The thread that runs arrives.
void barrier_is_told(const void* barrier) {
  Seen& by = seen[current->block->rank];
  const unsigned warp = current->index / kWarp;
  Told* of = told_at(barrier);
  add_later(of->of_warps[0], by.of_warps[warp], kWarps);
  add_later(of->of_threads[0], by.of_threads[warp], kMaxThreads);
  add_later(of->of_threads[0] + warp * kWarp, by.of_lanes[warp][current->index % kWarp], kWarp);
  by.events[warp] = of->of_threads[0][current->index] = ++event;
}

void barrier_ends_phase(const void* barrier) {
  Told* of = told_at(barrier);
  memcpy(of->of_warps[1], of->of_warps[0], sizeof of->of_warps[0]);
  memcpy(of->of_threads[1], of->of_threads[0], sizeof of->of_threads[0]);
}

// The thread that runs has waited.
void barrier_tells(const void* barrier) {
  Seen& by = seen[current->block->rank];
  const unsigned warp = current->index / kWarp;
  const Told* of = told_at(barrier);
  add_later(by.of_warps[warp], of->of_warps[1], kWarps);
  add_later(by.of_threads[warp], of->of_threads[1], kMaxThreads);
}

void all_are_in_order(const Block* block) {
  Seen& by = seen[block->rank];
  ++event;
  const unsigned warps = (launch.threads + kWarp - 1) / kWarp;
  for (unsigned warp = 0; warp < warps; ++warp) {
    by.events[warp] = event;
    for (unsigned& other : by.of_warps[warp]) other = event;  // of those too that an earlier block had
    for (auto& lane : by.of_lanes[warp]) {
      for (unsigned& other : lane) other = event;
    }
  }
}

void warps_are_in_order(const Block* block, unsigned warps) {
  Seen& by = seen[block->rank];
  unsigned all[kWarps] = {};
  static unsigned threads[kMaxThreads];
  memset(threads, 0, sizeof threads);
  ++event;
  for (unsigned warp = 0; warp < kWarps; ++warp) {
    if ((warps >> warp & 1) == 0) continue;
    for (unsigned other = 0; other < kWarps; ++other) {
      if (by.of_warps[warp][other] > all[other]) all[other] = by.of_warps[warp][other];
    }
    add_later(threads, by.of_threads[warp], kMaxThreads);
  }
  for (unsigned warp = 0; warp < kWarps; ++warp) {
    if ((warps >> warp & 1) != 0) all[warp] = event;
  }
  for (unsigned warp = 0; warp < kWarps; ++warp) {
    if ((warps >> warp & 1) == 0) continue;
    by.events[warp] = event;
    memcpy(by.of_warps[warp], all, sizeof all);
    memcpy(by.of_threads[warp], threads, sizeof threads);
    for (auto& lane : by.of_lanes[warp]) {
      for (unsigned& other : lane) other = event;
    }
  }
}

void lanes_are_in_order(const Block* block, unsigned warp, unsigned lanes) {
  auto& by = seen[block->rank].of_lanes[warp];
  unsigned all[kWarp] = {};
  seen[block->rank].events[warp] = ++event;
  for (unsigned lane = 0; lane < kWarp; ++lane) {
    if ((lanes >> lane & 1) == 0) continue;
    for (unsigned other = 0; other < kWarp; ++other) {
      if (by[lane][other] > all[other]) all[other] = by[lane][other];
    }
  }
  for (unsigned lane = 0; lane < kWarp; ++lane) {
    if ((lanes >> lane & 1) != 0) all[lane] = event;
  }
  for (unsigned lane = 0; lane < kWarp; ++lane) {
    if ((lanes >> lane & 1) != 0) memcpy(by[lane], all, sizeof all);
  }
}

}  // namespace emulator
