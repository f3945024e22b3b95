// SPDX-License-Identifier: MIT
// The emulated GPU. It runs one cluster of blocks at a time; a thread is a stack of its own, which runs until it has
// to wait for others. One operating system thread does all, so nothing here is locked but a launch (driver.cpp).
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "../device/image.h"

namespace emulator {

constexpr unsigned kWarp = 32;
constexpr unsigned kMaxThreads = 1024;
constexpr unsigned kMaxCluster = 16;
constexpr unsigned kBarriers = 16;
constexpr size_t kStackBytes = 64 << 10;
// A block's shared memory: static variables from the first on, then a gap, then the dynamic part.
constexpr size_t kArenaBytes = 512 << 10;
constexpr size_t kFirstStatic = 1 << 10;
constexpr size_t kMostStatic = 48 << 10;
constexpr int kPoison = 0xff;  // NaN in every type of float

struct Block;

// A copy that has begun and not ended.
struct Copy {
  unsigned to, bytes, given, group;
  uint64_t from;
};

// What a tensor of which boxes are copied is to the driver and to kernels: 128 bytes, as the driver's own.
struct TensorMap {
  uint64_t kind;  // kTensorMap
  uint64_t from;
  uint64_t sizes[5], pitches[5];  // the fastest dimension's first; pitches in bytes, the first an element's
  uint32_t box[5];
  uint8_t rank, swizzle, adds;  // swizzle: by how many bits of a row's number its 16 bytes are exchanged
  uint8_t unused[9];
};
constexpr uint64_t kTensorMap = 0x7446972616d6574ull;
static_assert(sizeof(TensorMap) == 128, "the driver's size");

// What is added by a reduction: of which type a tensor is.
enum : uint8_t { kAddsNothing, kAddsFloat32, kAddsFloat16, kAddsBFloat16, kAddsInt32 };

// A piece of a store from shared to global memory that has begun, in this thread's group of stores.
struct Piece {
  uint64_t to;
  unsigned from, group;
  uint8_t bytes, adds;
  bool read;
};

struct Thread {
  void* stack_pointer;
  Block* block;
  unsigned index;
  enum { kRuns, kWaits, kEnded } state;
  bool (*may_go_on)(const void* condition);
  const void* condition;
  const char* waits_for;
  unsigned detail;  // lanes, or a barrier's number
  bool met;         // in a warp
  bool previous_done, in_cluster, arrived;
  unsigned cluster_phase, group;
  Copy* copies;
  unsigned copy_count, copy_room;
  unsigned proxy_fence;  // its last fence.proxy.async, as an event of races.cpp
  Piece* pieces;
  unsigned piece_count, piece_room, store_group;
};

// Lanes on their way to one instruction.
struct Meeting {
  const char* what;  // null: no meeting
  unsigned lanes, here;
  void* brought[kWarp];
};

struct Barrier {
  unsigned arrived, asked, phase, warps;
};

struct Static {
  const void* key;
  size_t offset, bytes;
};

struct Block {
  unsigned index, rank, live;
  Thread* threads;
  Meeting meetings[kMaxThreads / kWarp][kWarp];
  Barrier barriers[kBarriers];
  Static statics[16];
  unsigned static_count;
  size_t static_end, static_bytes;
  unsigned char* shared;  // kArenaBytes
  unsigned char* flying;  // for each of these, whether a copy to it is on its way
  uint16_t* reading;      // for each 16 of these, how many wgmma and stores on their way read them
  unsigned registers[kMaxThreads / kWarp], free_registers;  // a thread's of each warp; of the block, setmaxnreg's
};

// In what order things happen that CUDA leaves open. Each launch takes the next of the four, unless a test chose one.
struct ScheduleMode {
  bool from_last;  // the last warps and lanes run first
  bool late;       // copies take effect when they are waited for, not at once
};

struct Launch {
  const EmulatedKernel* kernel;
  const void* parameters;
  unsigned grid, threads, cluster, shared;
  bool overlap;  // it may begin before the kernel before it has ended
  ScheduleMode mode;
};

extern Launch launch;

// Where dynamic shared memory begins: on 128 bytes, as boxes need it, and on no more. What is large is behind little,
// so that a matrix's descriptor, which has 18 bits, reaches its end; static variables are few then, on a GPU too.
inline size_t dynamic_at() {
  constexpr size_t kMuch = 160 << 10, kBehindFew = 16 << 10, kBehindMany = 64 << 10;
  return (launch.shared > kMuch ? kBehindFew : kBehindMany) + 128;
}
// Whether the kernel before let this one begin, and this one lets the next, only when all before it had ended: then
// what nobody writes meanwhile may be read before griddepcontrol.wait. Not of the first kernel after a test told of
// memory.
extern bool begun_in_order, next_in_order;
extern Thread* current;
extern Block blocks[kMaxCluster];  // of the cluster that runs

// Runs all blocks; false where something was wrong, which message() says.
bool run(const Launch& wanted);
const char* message();
// Something is wrong: in the thread that runs, which goes no further; or nobody's fault.
[[noreturn]] void fault(const char* format, ...) __attribute__((format(printf, 1, 2)));
void complain(const char* format, ...) __attribute__((format(printf, 1, 2)));

// Lets others run until the condition holds.
void wait_until(const char* what, unsigned detail, bool (*may_go_on)(const void*), const void* condition);

// async.cpp: what is still on its way; and the end of a thread.
bool deliver();
bool something_flies();
void finish_copies(Thread* thread);
void begin_cluster(unsigned live);
void thread_leaves_cluster();

unsigned offset_of(unsigned address);
Block* block_of(const char* what, unsigned address);
// So many bytes of a block, 16 or fewer, which are on their way from global memory, or zeros from 0 on; 16 are counted.
void send_copy(const Block* to, unsigned offset, uint64_t from, unsigned given, unsigned barrier);

// boxes.cpp: what the driver makes of a tensor, false where it refuses; stores on their way when a thread ends.
bool describe_tensor(void* map, int type, unsigned rank, uint64_t from, const uint64_t* sizes, const uint64_t* pitches,
                     const uint32_t* box, const uint32_t* every, int swizzle);
void check_stores(const Thread* thread);

// products.cpp: what a warp's tensor cores have to do yet.
void begin_products(const Block* block);
void check_products();  // of the thread that ends
const char* accumulator_at(const void* address, size_t bytes);

void register_warps(Block* block);  // registers.cpp

// memory.cpp
void forget_flights();
void begin_block(Block* block);
void image_lies_at(const void* something_in_it);
void was_written(void* begin, size_t bytes);
void forget_memory(void* begin);
void check_plain(const void* address, size_t bytes, bool written);
unsigned char* shared_bytes(const char* what, Block* block, size_t offset, size_t bytes);
bool in_stacks(const void* address);

// races.cpp: who touches shared memory, and what brings that into an order.
void shared_access(const char* what, const Block* block, size_t offset, size_t bytes, bool written);
void shared_arrival(const Block* block, size_t offset, size_t bytes);
// By TMA or a warp's wgmma: what is read must have been stored before a fence.proxy.async, and what is written must not
// be read any more.
void shared_async_read(const char* what, const Block* block, size_t offset, size_t bytes, bool by_warp);
void shared_async_write(const char* what, const Block* block, size_t offset, size_t bytes);
void is_read(const Block* block, size_t offset, int more);
bool is_being_read(const Block* block, size_t offset, size_t bytes);
void proxy_fence();
unsigned last_event();
void all_are_in_order(const Block* block);
void warps_are_in_order(const Block* block, unsigned warps);
void lanes_are_in_order(const Block* block, unsigned warp, unsigned lanes);
void forget_barriers();
void barrier_begins(const void* barrier);
void barrier_expects(const void* barrier, int64_t bytes);  // below 0: those have come
int64_t bytes_untold();  // that came to a barrier, and it was never told to expect; the most of one
void barrier_is_told(const void* barrier);
void barrier_ends_phase(const void* barrier);
void barrier_tells(const void* barrier);

extern unsigned char *stacks, *stacks_end, *arenas, *arenas_end;

}  // namespace emulator
