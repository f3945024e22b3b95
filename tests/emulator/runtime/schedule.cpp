// SPDX-License-Identifier: MIT
// Who runs: threads in turn, until each waits for something that has not come, or has ended.
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "../device/emulated.h"
#include "context.h"
#include "machine.h"

namespace emulator {

Launch launch;
bool begun_in_order, next_in_order;
Thread* current;
Block blocks[kMaxCluster];

namespace {

Thread threads[kMaxCluster * kMaxThreads];
void* scheduler_stack;
char text[2048];
bool failed;

void say(const char* format, va_list arguments) {
  int length = snprintf(text, sizeof text, "kernel %s", launch.kernel->name);
  if (current != nullptr) {
    length += snprintf(text + length, sizeof text - static_cast<size_t>(length), ", block %u of %u, thread %u of %u",
                       current->block->index, launch.grid, current->index, launch.threads);
  }
  length += snprintf(text + length, sizeof text - static_cast<size_t>(length), ": ");
  length += vsnprintf(text + length, sizeof text - static_cast<size_t>(length), format, arguments);
  if (length < static_cast<int>(sizeof text)) {
    snprintf(text + length, sizeof text - static_cast<size_t>(length), " (the %s threads first, copies %s)",
             launch.mode.from_last ? "last" : "first", launch.mode.late ? "late" : "at once");
  }
  failed = true;
}

void yield() { emulator_switch(&current->stack_pointer, scheduler_stack); }

// Those that wait for all of a block wait for fewer now.
void release_if_complete(Barrier* barrier, const Block* block) {
  const unsigned wanted = barrier->asked != 0 ? barrier->asked : block->live;
  if (barrier->arrived == 0 || barrier->arrived < wanted) return;
  if (barrier->asked != 0) {
    warps_are_in_order(block, barrier->warps);
  } else {
    all_are_in_order(block);
  }
  barrier->arrived = barrier->warps = 0;
  ++barrier->phase;
}

void lanes_must_be_there(const Meeting& meeting, unsigned warp) {
  for (unsigned lane = 0; lane < kWarp; ++lane) {
    if ((meeting.lanes >> lane & 1) == 0) continue;
    const unsigned index = warp * kWarp + lane;
    if (index >= launch.threads) fault("%s with lane %u, which the block does not have", meeting.what, lane);
    if (current->block->threads[index].state == Thread::kEnded) {
      fault("%s with lane %u, which has ended", meeting.what, lane);
    }
  }
}

void end_thread() {
  Block* block = current->block;
  if (launch.overlap && !current->previous_done) {
    fault("ends without griddepcontrol.wait: the next kernel could begin before the one before this has ended");
  }
  finish_copies(current);
  check_stores(current);
  check_products();
  current->state = Thread::kEnded;
  --block->live;
  thread_leaves_cluster();
  for (const Meeting& meeting : block->meetings[current->index / kWarp]) {
    if (meeting.what != nullptr && (meeting.lanes >> current->index % kWarp & 1) != 0) {
      fault("ends while lanes %08x wait for it at %s", meeting.here, meeting.what);
    }
  }
  for (Barrier& barrier : block->barriers) release_if_complete(&barrier, block);
}

void thread_begins() {
  launch.kernel->call(launch.parameters);
  end_thread();
  yield();
}

void make_threads(unsigned first_block) {
  for (unsigned rank = 0; rank < launch.cluster; ++rank) {
    Block* block = &blocks[rank];
    block->index = first_block + rank;
    block->rank = rank;
    block->live = launch.threads;
    block->threads = &threads[rank * launch.threads];
    memset(block->meetings, 0, sizeof block->meetings);
    memset(block->barriers, 0, sizeof block->barriers);
    begin_block(block);
    begin_products(block);
    register_warps(block);
    const unsigned event = last_event();  // that the block begins with
    for (unsigned index = 0; index < launch.threads; ++index) {
      Thread& thread = block->threads[index];
      Copy* copies = thread.copies;
      Piece* pieces = thread.pieces;
      const unsigned room = thread.copy_room, piece_room = thread.piece_room;
      thread = {};
      thread.copies = copies, thread.copy_room = room;
      thread.pieces = pieces, thread.piece_room = piece_room;
      thread.proxy_fence = event;
      thread.block = block;
      thread.index = index;
      unsigned char* end = stacks + (rank * launch.threads + index + 1) * kStackBytes;
      thread.stack_pointer = new_stack(end, thread_begins);
    }
  }
  begin_cluster(launch.cluster * launch.threads);
}

// Runs the thread if it can; whether it did.
bool step(Thread* thread) {
  if (thread->state == Thread::kEnded) return false;
  if (thread->state == Thread::kWaits && !thread->may_go_on(thread->condition)) return false;
  thread->state = Thread::kRuns;
  current = thread;
  emulator_switch(&scheduler_stack, thread->stack_pointer);
  return true;
}

// A warp until none of its lanes can go on.
bool step_warp(Thread* first, unsigned lanes) {
  bool moved = false;
  for (bool again = true; again && !failed;) {
    again = false;
    for (unsigned i = 0; i < lanes && !failed; ++i) {
      again |= step(&first[launch.mode.from_last ? lanes - 1 - i : i]);
    }
    moved |= again;
  }
  return moved;
}

bool step_all() {
  const unsigned warps = (launch.threads + kWarp - 1) / kWarp, all = launch.cluster * warps;
  bool moved = false;
  for (unsigned i = 0; i < all && !failed; ++i) {
    const unsigned which = launch.mode.from_last ? all - 1 - i : i, first = which % warps * kWarp;
    const unsigned lanes = launch.threads - first < kWarp ? launch.threads - first : kWarp;
    moved |= step_warp(&blocks[which / warps].threads[first], lanes);
  }
  return moved;
}

// Nobody can go on: says who waits for what, the first of each kind.
void complain_of_waiting() {
  char who[1024] = "";
  size_t length = 0;
  const char* said[8] = {};
  unsigned kinds = 0, waiting = 0;
  for (unsigned i = 0; i < launch.cluster * launch.threads; ++i) {
    const Thread& thread = threads[i];
    if (thread.state != Thread::kWaits) continue;
    ++waiting;
    bool known = kinds == 8;
    for (unsigned k = 0; k < kinds; ++k) known |= said[k] == thread.waits_for;
    if (known) continue;
    said[kinds++] = thread.waits_for;
    length += static_cast<size_t>(snprintf(who + length, sizeof who - length, "; thread %u of block %u at %s (%#x)",
                                           thread.index, thread.block->index, thread.waits_for, thread.detail));
    if (length >= sizeof who) break;
  }
  current = nullptr;
  complain("%u threads wait for others that never come%s", waiting, who);
}

bool run_cluster(unsigned first_block) {
  make_threads(first_block);
  for (;;) {
    const bool moved = step_all();
    if (failed) return false;
    unsigned live = 0;
    for (unsigned rank = 0; rank < launch.cluster; ++rank) live += blocks[rank].live;
    if (live == 0) break;
    if (moved || deliver()) continue;
    if (!failed) complain_of_waiting();
    return false;
  }
  current = nullptr;
  if (something_flies()) complain("a cluster has ended before all that was written into it has arrived");
  // A phase that nobody waits for may be announced and never come; what has come must have been announced.
  const int64_t untold = failed ? 0 : bytes_untold();
  if (untold > 0) complain("%lld bytes came to a barrier that was not told of them", static_cast<long long>(untold));
  return !failed;
}

}  // namespace

const char* message() { return text; }

void complain(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  say(format, arguments);
  va_end(arguments);
}

void fault(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  say(format, arguments);
  va_end(arguments);
  for (;;) yield();  // for good: the launch is over
}

void wait_until(const char* what, unsigned detail, bool (*may_go_on)(const void*), const void* condition) {
  if (may_go_on(condition)) return;
  current->state = Thread::kWaits;
  current->may_go_on = may_go_on;
  current->condition = condition;
  current->waits_for = what;
  current->detail = detail;
  yield();
}

bool run(const Launch& wanted) {
  launch = wanted;
  begun_in_order = next_in_order;
  next_in_order = true;
  if (failed) forget_flights();
  failed = false;
  text[0] = '\0';
  for (unsigned block = 0; block < launch.grid; block += launch.cluster) {
    if (!run_cluster(block)) break;
  }
  current = nullptr;
  return !failed;
}

}  // namespace emulator

using namespace emulator;

extern "C" {

EmulatedIndex emulated_thread_index() { return {current->index, 0, 0}; }
EmulatedIndex emulated_block_index() { return {current->block->index, 0, 0}; }
EmulatedIndex emulated_block_size() { return {launch.threads, 1, 1}; }
EmulatedIndex emulated_grid_size() { return {launch.grid, 1, 1}; }

void emulated_fault(const char* format, ...) {
  char what[512];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(what, sizeof what, format, arguments);
  va_end(arguments);
  fault("%s", what);
}

void emulated_barrier(unsigned id, unsigned asked) {
  if (id >= kBarriers) fault("bar.sync %u: there are %u barriers", id, kBarriers);
  if (asked % kWarp != 0 || asked > launch.threads) {
    fault("bar.sync %u of %u threads: whole warps meet there, of %u threads", id, asked, launch.threads);
  }
  Barrier* barrier = &current->block->barriers[id];
  if (barrier->arrived > 0 && barrier->asked != asked) {
    fault("bar.sync %u of %u threads, but those that wait there said %u", id, asked, barrier->asked);
  }
  struct Waiting {
    const Barrier* barrier;
    unsigned phase;
  } const waiting = {barrier, barrier->phase};
  barrier->asked = asked;
  barrier->warps |= 1u << current->index / kWarp;
  ++barrier->arrived;
  release_if_complete(barrier, current->block);
  wait_until(
      "bar.sync", id,
      [](const void* w) {
        const auto* of = static_cast<const Waiting*>(w);
        return of->barrier->phase != of->phase;
      },
      &waiting);
}

void emulated_meet(const char* what, unsigned lanes, void* brought, EmulatedCombine combine) {
  const unsigned lane = current->index % kWarp, warp = current->index / kWarp;
  if ((lanes >> lane & 1) == 0) fault("%s of lanes %08x, of which this thread, lane %u, is none", what, lanes, lane);
  Meeting* meeting = nullptr;
  for (Meeting& other : current->block->meetings[warp]) {
    if (other.what != nullptr && other.lanes == lanes) meeting = &other;
  }
  for (Meeting& free : current->block->meetings[warp]) {
    if (meeting != nullptr) break;
    if (free.what == nullptr) meeting = &free, *meeting = {what, lanes, 0, {}};
  }
  if (strcmp(meeting->what, what) != 0) {
    fault("is at %s while lanes %08x of its warp wait for it at %s", what, meeting->here, meeting->what);
  }
  lanes_must_be_there(*meeting, warp);
  meeting->here |= 1u << lane;
  meeting->brought[lane] = brought;
  current->met = false;
  if (meeting->here == lanes) {
    void* all[kWarp];  // on this stack, where an image may read
    memcpy(all, meeting->brought, sizeof all);
    meeting->what = nullptr;
    if (combine != nullptr) {
      combine(all, lanes);
    } else {
      lanes_are_in_order(current->block, warp, lanes);
    }
    for (unsigned i = 0; i < kWarp; ++i) {
      if ((lanes >> i & 1) != 0) current->block->threads[warp * kWarp + i].met = true;
    }
  }
  wait_until(what, lanes, [](const void* thread) { return static_cast<const Thread*>(thread)->met; }, current);
}

}  // extern "C"
