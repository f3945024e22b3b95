// SPDX-License-Identifier: MIT
// What goes on while threads work: copies to shared memory, barriers that count their bytes, clusters.
#include <stdlib.h>
#include <string.h>

#include "../device/emulated.h"
#include "machine.h"

namespace emulator {
namespace {

// An mbarrier as it lies in shared memory. Poisoned memory is none.
struct Mbarrier {
  int32_t bytes;  // still to come; below 0 where they came before they were announced
  uint16_t pending_and_phase, arrivals;

  unsigned pending() const { return pending_and_phase & 0x7fffu; }
  unsigned phase() const { return pending_and_phase >> 15; }
};
static_assert(sizeof(Mbarrier) == 8, "it lies in 64 bits");

// Bytes on their way to a block of the cluster, counted at its barrier.
struct Sent {
  unsigned rank, to, bytes, barrier;
  uint64_t from;   // global memory; 0: `data`
  unsigned given;  // of the bytes from there; the others are zeros
  unsigned char data[16];
};

Sent* sent;
unsigned sent_count, sent_room;

struct {
  unsigned arrived, live, phase;
  bool in_order;  // all that have arrived tell of what they wrote before
} cluster;

// An address of shared memory: a block of the cluster, counted from 1 where mapa made it, and the offset.
constexpr unsigned kRankShift = 24;

}  // namespace

unsigned offset_of(unsigned address) { return address & ((1u << kRankShift) - 1); }

Block* block_of(const char* what, unsigned address) {
  const unsigned rank = address >> kRankShift;
  if (rank == 0) return current->block;
  if (rank > launch.cluster) fault("%s: the cluster has no block %u", what, rank - 1);
  Block* block = &blocks[rank - 1];
  if (block == current->block) return block;
  if (!current->in_cluster) fault("%s: block %u of the cluster may not have begun: no barrier said so", what, rank - 1);
  if (block->live == 0) fault("%s: block %u of the cluster has ended", what, rank - 1);
  return block;
}

namespace {

Mbarrier* mbarrier_at(const char* what, Block* block, unsigned address) {
  const unsigned offset = offset_of(address);
  if (offset % sizeof(Mbarrier) != 0) fault("%s: the barrier is not on 8 bytes", what);
  return reinterpret_cast<Mbarrier*>(shared_bytes(what, block, offset, sizeof(Mbarrier)));
}

Mbarrier* begun(const char* what, Block* block, unsigned address) {
  Mbarrier* barrier = mbarrier_at(what, block, address);
  if (barrier->arrivals == 0xffff) fault("%s: the barrier was never initialised", what);
  return barrier;
}

void end_phase_if_complete(Mbarrier* barrier) {
  if (barrier->pending() != 0 || barrier->bytes != 0) return;
  barrier->pending_and_phase = static_cast<uint16_t>((barrier->phase() ^ 1) << 15 | barrier->arrivals);
  barrier_ends_phase(barrier);
}

void set_flying(Block* block, unsigned offset, unsigned bytes, bool flies) {
  memset(block->flying + offset, flies, bytes);
}

// What is wrong with it, if anything.
const char* arrive(const Sent& message) {
  Block* block = &blocks[message.rank];
  if (block->live == 0) return "a block has ended before what was written into it has arrived";
  set_flying(block, message.to, message.bytes, false);
  if (is_being_read(block, message.to, message.bytes)) return "a copy has arrived where wgmma or a store still reads";
  if (message.from != 0) {
    memset(block->shared + message.to, 0, message.bytes);
    memcpy(block->shared + message.to, reinterpret_cast<const void*>(message.from), message.given);
  } else {
    memcpy(block->shared + message.to, message.data, message.bytes);
  }
  shared_arrival(block, message.to, message.bytes);
  auto* barrier = reinterpret_cast<Mbarrier*>(block->shared + message.barrier);
  if (barrier->arrivals == 0xffff) return "what was written has arrived at a barrier that was never initialised";
  barrier->bytes -= static_cast<int32_t>(message.bytes);
  barrier_expects(barrier, -static_cast<int64_t>(message.bytes));
  end_phase_if_complete(barrier);
  return nullptr;
}

void send(const Sent& message) {
  constexpr const char* kWhat = "an asynchronous store";
  Block* block = &blocks[message.rank];
  shared_bytes(kWhat, block, message.to, message.bytes);
  mbarrier_at(kWhat, block, message.barrier);
  if (message.from != 0) shared_async_write("a copy", block, message.to, message.bytes);
  if (!launch.mode.late) {
    const char* wrong = arrive(message);
    if (wrong != nullptr) fault("%s", wrong);
    return;
  }
  if (sent_count == sent_room) {
    sent_room = sent_room == 0 ? 256 : 2 * sent_room;
    sent = static_cast<Sent*>(realloc(sent, sent_room * sizeof(Sent)));
    if (sent == nullptr) abort();
  }
  set_flying(block, message.to, message.bytes, true);
  sent[sent_count++] = message;
}

void land(const Copy& copy) {
  Block* block = current->block;
  set_flying(block, copy.to, copy.bytes, false);
  unsigned char* to = shared_bytes("cp.async", block, copy.to, copy.bytes);
  shared_access("cp.async", block, copy.to, copy.bytes, true);
  memset(to, 0, copy.bytes);
  memcpy(to, reinterpret_cast<const void*>(copy.from), copy.given);
}

}  // namespace

void send_copy(const Block* to, unsigned offset, uint64_t from, unsigned given, unsigned barrier) {
  send({to->rank, offset, 16, barrier, from, given, {}});
}

bool something_flies() { return sent_count > 0; }

// All that is on its way arrives; whether there was something. Nobody else can go on.
bool deliver() {
  const unsigned count = sent_count;
  sent_count = 0;
  for (unsigned i = 0; i < count; ++i) {
    const char* wrong = arrive(sent[i]);
    if (wrong != nullptr) complain("%s", wrong);
  }
  return count > 0;
}

void finish_copies(Thread* thread) {
  for (unsigned i = 0; i < thread->copy_count; ++i) land(thread->copies[i]);
  thread->copy_count = 0;
}

void begin_cluster(unsigned live) {
  forget_barriers();
  cluster = {0, live, 0, true};
  sent_count = 0;
}

static void release_cluster() {
  if (cluster.arrived == 0 || cluster.arrived < cluster.live) return;
  for (unsigned rank = 0; cluster.in_order && rank < launch.cluster; ++rank) all_are_in_order(&blocks[rank]);
  cluster = {0, cluster.live, cluster.phase + 1, true};
}

void thread_leaves_cluster() {
  --cluster.live;
  release_cluster();
}

}  // namespace emulator

using namespace emulator;

extern "C" {

unsigned emulated_shared_address(const void* address) {
  const auto* at = static_cast<const unsigned char*>(address);
  const Block* block = current->block;
  if (at < block->shared || at >= block->shared + kArenaBytes) fault("cvta.to.shared of an address that is not shared");
  return static_cast<unsigned>(at - block->shared);
}

unsigned emulated_address_in_cluster(unsigned address, unsigned rank) {
  if (rank >= launch.cluster) fault("mapa: the cluster has no block %u", rank);
  return (rank + 1) << kRankShift | offset_of(address);
}

void* emulated_shared(const char* what, unsigned address, unsigned bytes, bool written) {
  if (address >> kRankShift != 0) fault("%s of another block's memory", what);
  if (address % bytes != 0) fault("%s: the address %#x is no multiple of %u", what, address, bytes);
  void* place = shared_bytes(what, current->block, address, bytes);
  shared_access(what, current->block, address, bytes, written);
  return place;
}

void emulated_copy_async(unsigned to, unsigned long long from, unsigned bytes, unsigned given) {
  if (given > bytes) fault("cp.async of %u bytes gives %u", bytes, given);
  if (from % bytes != 0) fault("cp.async: the address %#llx is no multiple of %u", from, bytes);
  emulated_shared("cp.async", to, bytes, true);
  // compute-sanitizer counts all of them, whatever is given.
  if (given > 0) check_plain(reinterpret_cast<const void*>(from), bytes, false);
  const Copy copy = {to, bytes, given, current->group, from};
  if (!launch.mode.late) return land(copy);
  set_flying(current->block, to, bytes, true);
  if (current->copy_count == current->copy_room) {
    current->copy_room = current->copy_room == 0 ? 16 : 2 * current->copy_room;
    current->copies = static_cast<Copy*>(realloc(current->copies, current->copy_room * sizeof(Copy)));
    if (current->copies == nullptr) abort();
  }
  current->copies[current->copy_count++] = copy;
}

void emulated_copies_commit() { ++current->group; }

// Groups are numbered from 0; of the committed ones the last `left` may fly on.
void emulated_copies_wait(unsigned left) {
  unsigned kept = 0;
  for (unsigned i = 0; i < current->copy_count; ++i) {
    const Copy copy = current->copies[i];
    if (copy.group + left < current->group) {
      land(copy);
    } else {
      current->copies[kept++] = copy;
    }
  }
  current->copy_count = kept;
}

void emulated_barrier_init(unsigned address, unsigned arrivals) {
  Mbarrier* barrier = mbarrier_at("mbarrier.init", current->block, address);
  *barrier = {0, static_cast<uint16_t>(arrivals), static_cast<uint16_t>(arrivals)};
  barrier_begins(barrier);
}

void emulated_barrier_arrive(unsigned address, unsigned more_bytes) {
  Block* block = block_of("mbarrier.arrive", address);
  Mbarrier* barrier = begun("mbarrier.arrive", block, address);
  if (barrier->pending() == 0) fault("mbarrier.arrive: all %u have arrived in this phase", barrier->arrivals);
  barrier->bytes += static_cast<int32_t>(more_bytes);
  barrier_expects(barrier, more_bytes);
  if (block == current->block) barrier_is_told(barrier);  // what others did is in their own memory
  --barrier->pending_and_phase;
  end_phase_if_complete(barrier);
}

bool emulated_barrier_wait(unsigned address, unsigned parity) {
  struct Waiting {
    const Mbarrier* barrier;
    unsigned parity;
  } const waiting = {begun("mbarrier.try_wait", current->block, address), parity};
  wait_until(
      "mbarrier.try_wait", address,
      [](const void* w) {
        const auto* of = static_cast<const Waiting*>(w);
        return of->barrier->phase() != of->parity;
      },
      &waiting);
  barrier_tells(waiting.barrier);
  return true;
}

void emulated_store_async(unsigned to, const void* data, unsigned bytes, unsigned barrier) {
  // A GPU calls it an illegal instruction, also where the block writes to itself.
  if (launch.cluster == 1) fault("st.async: the launch has no clusters");
  Block* block = block_of("st.async", to);
  if (block != block_of("st.async", barrier)) fault("st.async: its barrier is in another block than its data");
  // What this thread has read before, it has read when the data arrives.
  if (block == current->block) barrier_is_told(begun("st.async", block, barrier));
  Sent message = {block->rank, offset_of(to), bytes, offset_of(barrier), 0, 0, {}};
  memcpy(message.data, data, bytes);
  send(message);
}

void emulated_copy_bulk(unsigned to, unsigned long long from, unsigned bytes, unsigned barrier) {
  if (bytes % 16 != 0 || from % 16 != 0 || to % 16 != 0) {
    fault("cp.async.bulk of %u bytes from %#llx to %#x: all must be multiples of 16", bytes, from, to);
  }
  check_plain(reinterpret_cast<const void*>(from), bytes, false);
  Block* block = block_of("cp.async.bulk", to);
  if (block != block_of("cp.async.bulk", barrier))
    fault("cp.async.bulk: its barrier is in another block than its data");
  send({block->rank, offset_of(to), bytes, offset_of(barrier), from, bytes, {}});
}

void emulated_cluster_arrive(bool in_order) {
  if (current->arrived) fault("barrier.cluster.arrive a second time without barrier.cluster.wait");
  current->arrived = true;
  current->cluster_phase = cluster.phase;
  cluster.in_order &= in_order;
  ++cluster.arrived;
  release_cluster();
}

void emulated_cluster_wait() {
  if (!current->arrived) fault("barrier.cluster.wait without barrier.cluster.arrive");
  current->arrived = false;
  wait_until(
      "barrier.cluster.wait", launch.cluster,
      [](const void* thread) { return cluster.phase != static_cast<const Thread*>(thread)->cluster_phase; }, current);
  current->in_cluster = true;
}

void emulated_previous_kernel() { current->previous_done = true; }

void emulated_next_kernel() {
  if (launch.overlap && !current->previous_done) next_in_order = false;
}

}  // extern "C"
