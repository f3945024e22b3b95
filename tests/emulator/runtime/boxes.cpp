// SPDX-License-Identifier: MIT
// Boxes of tensors, to shared memory and back (cp.async.bulk.tensor), and stores of bytes. A load goes the way of all
// copies (async.cpp). A store reads shared memory when it is waited for, or at once: until then nobody may write there.
#include <stdlib.h>
#include <string.h>

#include "../device/emulated.h"
#include "../device/ptx_math.h"
#include "machine.h"

namespace emulator {
namespace {

// 16 bytes of a box: where in shared memory, counted from the box on, and in global memory, 0 outside the tensor.
struct Chunk {
  unsigned offset, bytes;
  uint64_t global;
};

const TensorMap& tensor_map(const char* what, uint64_t address) {
  const auto& map = *reinterpret_cast<const TensorMap*>(address);
  if (address % 64 != 0 || map.kind != kTensorMap) fault("%s: the driver has described no matrix there", what);
  return map;
}

// Of the row of the box that the other coordinates say.
template <class F>
void chunks_of_row(const TensorMap& map, const int* at, const uint64_t* row, unsigned first, F&& take) {
  uint64_t begin = map.from;
  bool inside = true;
  for (unsigned d = 1; d < map.rank; ++d) {
    const int64_t place = int64_t{at[d]} + static_cast<int64_t>(row[d]);
    inside &= place >= 0 && place < static_cast<int64_t>(map.sizes[d]);
    begin += static_cast<uint64_t>(place) * map.pitches[d];
  }
  const auto element = static_cast<int64_t>(map.pitches[0]), end = static_cast<int64_t>(map.sizes[0]) * element;
  const int64_t bytes = int64_t{map.box[0]} * element;
  for (int64_t i = 0; i < bytes; i += 16) {
    const int64_t from = at[0] * element + i, left = end - from;
    const bool none = !inside || from < 0 || left <= 0;
    const auto given = static_cast<unsigned>(none ? 0 : left < 16 ? left : 16);
    take(Chunk{first + static_cast<unsigned>(i), given, none ? 0 : begin + static_cast<uint64_t>(from)});
  }
}

template <class F>
void chunks_of(const char* what, const TensorMap& map, unsigned rank, const int* at, F&& take) {
  if (map.rank != rank) fault("%s.%ud: the tensor has %u dimensions", what, rank, map.rank);
  if (at[0] * static_cast<int64_t>(map.pitches[0]) % 16 != 0) fault("%s: column %d is not on 16 bytes", what, at[0]);
  uint64_t row[5] = {}, rows = 1;
  for (unsigned d = 1; d < rank; ++d) rows *= map.box[d];
  const auto row_bytes = static_cast<unsigned>(map.box[0] * map.pitches[0]);
  for (unsigned i = 0; i < rows; ++i) {
    chunks_of_row(map, at, row, i * row_bytes, take);
    for (unsigned d = 1; d < rank && ++row[d] == map.box[d]; ++d) row[d] = 0;
  }
}

unsigned swizzled(const TensorMap& map, unsigned place) {
  return place ^ (place >> 7 & ((1u << map.swizzle) - 1)) << 4;
}

void check_place(const char* what, unsigned address) {
  if (address % 128 != 0) fault("%s to %#x, which is no multiple of 128", what, address);
}

Piece* new_piece() {
  if (current->piece_count == current->piece_room) {
    current->piece_room = current->piece_room == 0 ? 256 : 2 * current->piece_room;
    current->pieces = static_cast<Piece*>(realloc(current->pieces, current->piece_room * sizeof(Piece)));
    if (current->pieces == nullptr) abort();
  }
  return &current->pieces[current->piece_count++];
}

template <class T, class Wide, class Narrow>
void add(unsigned char* to, const unsigned char* from, unsigned bytes, Wide wide, Narrow narrow) {
  for (unsigned i = 0; i < bytes; i += sizeof(T)) {
    T a, b;
    memcpy(&a, to + i, sizeof a);
    memcpy(&b, from + i, sizeof b);
    a = narrow(wide(a) + wide(b));
    memcpy(to + i, &a, sizeof a);
  }
}

void take_effect(Piece* piece) {
  const Block* block = current->block;
  auto* to = reinterpret_cast<unsigned char*>(piece->to);
  const unsigned char* from = block->shared + piece->from;
  if (piece->adds != kAddsNothing) check_plain(to, piece->bytes, false);
  check_plain(to, piece->bytes, true);
  auto same = [](auto value) { return value; };
  if (piece->adds == kAddsNothing) memcpy(to, from, piece->bytes);
  if (piece->adds == kAddsFloat32) add<float>(to, from, piece->bytes, same, same);
  if (piece->adds == kAddsInt32) add<unsigned>(to, from, piece->bytes, same, same);
  if (piece->adds == kAddsFloat16) add<uint16_t>(to, from, piece->bytes, ptx::float_of_half, ptx::half_of_float);
  if (piece->adds == kAddsBFloat16) add<uint16_t>(to, from, piece->bytes, ptx::float_of_bfloat, ptx::bfloat_of_float);
  piece->read = true;
}

void begin_store(const char* what, unsigned from, uint64_t to, unsigned bytes, uint8_t adds) {
  const Block* block = current->block;
  shared_bytes(what, current->block, from, bytes);
  shared_async_read(what, block, from, (bytes + 3) / 4 * 4, false);
  check_plain(reinterpret_cast<const void*>(to), bytes, true);  // here, where the kernel's mistake is
  Piece* piece = new_piece();
  *piece = {to, from, current->store_group, static_cast<uint8_t>(bytes), adds, false};
  if (!launch.mode.late) take_effect(piece);
  is_read(block, from, 1);
}

}  // namespace

bool describe_tensor(void* map, int type, unsigned rank, uint64_t from, const uint64_t* sizes, const uint64_t* pitches,
                     const uint32_t* box, const uint32_t* every, int swizzle) {
  constexpr unsigned kElement[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2};  // uint8 … bfloat16, in the driver's order
  constexpr uint8_t kAdds[] = {0, 0, kAddsInt32, kAddsInt32, 0, 0, kAddsFloat16, kAddsFloat32, 0, kAddsBFloat16};
  if (type < 0 || type > 9 || rank < 2 || rank > 5 || swizzle < 0 || swizzle > 3) return false;
  if (reinterpret_cast<uintptr_t>(map) % 64 != 0 || from % 16 != 0) return false;
  TensorMap made = {};
  made.kind = kTensorMap, made.from = from, made.rank = static_cast<uint8_t>(rank);
  made.swizzle = static_cast<uint8_t>(swizzle), made.adds = kAdds[type];
  made.pitches[0] = kElement[type];
  for (unsigned d = 0; d < rank; ++d) {
    made.sizes[d] = sizes[d], made.box[d] = box[d];
    if (d > 0) made.pitches[d] = pitches[d - 1];
    if (sizes[d] == 0 || sizes[d] > 1ull << 32 || box[d] == 0 || box[d] > 256 || every[d] != 1) return false;
    if (d > 0 && (made.pitches[d] % 16 != 0 || made.pitches[d] >= 1ull << 40)) return false;
  }
  const uint64_t row = box[0] * made.pitches[0];
  if (row % 16 != 0 || (swizzle != 0 && row != 16u << swizzle)) return false;
  memcpy(map, &made, sizeof made);
  return true;
}

// What has not been waited for: the block's memory may be another's before it was read.
void check_stores(const Thread* thread) {
  if (thread->piece_count > 0) fault("ends while its stores still read shared memory: no wait_group came after them");
}

}  // namespace emulator

using namespace emulator;

extern "C" {

void emulated_load_box(unsigned to, unsigned long long map, unsigned rank, const int* at, unsigned barrier,
                       unsigned others) {
  constexpr const char* kWhat = "cp.async.bulk.tensor";
  const TensorMap& of = tensor_map(kWhat, map);
  check_place(kWhat, to);
  Block* own = block_of(kWhat, to);
  if (own != block_of(kWhat, barrier)) fault("%s: its barrier is in another block than its data", kWhat);
  if (others >> launch.cluster != 0)
    fault("%s.multicast: the cluster has %u blocks, not those of %#x", kWhat, launch.cluster, others);
  if (others != 0 && launch.cluster > 1 && !current->in_cluster) {
    fault("%s.multicast: other blocks may not have begun: no barrier said so", kWhat);
  }
  chunks_of(kWhat, of, rank, at, [&](const Chunk& chunk) {
    if (chunk.global != 0) check_plain(reinterpret_cast<const void*>(chunk.global), chunk.bytes, false);
    // Zeros come from somewhere, too.
    const uint64_t from = chunk.global != 0 ? chunk.global : reinterpret_cast<uintptr_t>(&of);
    const unsigned place = swizzled(of, offset_of(to) + chunk.offset);
    for (unsigned rank_of = 0; rank_of < launch.cluster; ++rank_of) {
      Block* block = &blocks[rank_of];
      if (others == 0 ? block != own : (others >> rank_of & 1) == 0) continue;
      if (block->live == 0) fault("%s.multicast: block %u of the cluster has ended", kWhat, rank_of);
      send_copy(block, place, from, chunk.bytes, offset_of(barrier));
    }
  });
}

void emulated_store_box(unsigned long long map, unsigned rank, const int* at, unsigned from, unsigned how) {
  const char* what = how == emulated_store ? "cp.async.bulk.tensor" : "cp.reduce.async.bulk.tensor";
  const TensorMap& of = tensor_map(what, map);
  check_place(what, from);
  if (how != emulated_store && of.adds == kAddsNothing) fault("%s: elements of this type cannot be added", what);
  chunks_of(what, of, rank, at, [&](const Chunk& chunk) {
    if (chunk.global == 0) return;
    begin_store(what, swizzled(of, from + chunk.offset), chunk.global, chunk.bytes,
                how == emulated_store ? uint8_t{kAddsNothing} : of.adds);
  });
}

void emulated_store_bulk(unsigned long long to, unsigned from, unsigned bytes, unsigned how) {
  const char* what = how == emulated_store ? "cp.async.bulk" : "cp.reduce.async.bulk";
  if (bytes % 16 != 0 || from % 16 != 0 || to % 16 != 0) {
    fault("%s of %u bytes from %#x to %#llx: all must be multiples of 16", what, bytes, from, to);
  }
  for (unsigned i = 0; i < bytes; i += 16) {
    begin_store(what, from + i, to + i, 16, how == emulated_store ? uint8_t{kAddsNothing} : uint8_t{kAddsFloat32});
  }
}

void emulated_stores_commit() { ++current->store_group; }

// In either way of waiting what is stored is in memory here.
void emulated_stores_wait(unsigned left, bool) {
  unsigned kept = 0;
  for (unsigned i = 0; i < current->piece_count; ++i) {
    Piece piece = current->pieces[i];
    if (piece.group + left >= current->store_group) {
      current->pieces[kept++] = piece;
      continue;
    }
    if (!piece.read) take_effect(&piece);
    is_read(current->block, piece.from, -1);
  }
  current->piece_count = kept;
}

void emulated_describes(unsigned long long map) { tensor_map("a prefetch of a tensor", map); }

void emulated_proxy_fence() { proxy_fence(); }

}  // extern "C"
