// SPDX-License-Identifier: MIT
// Products by a warpgroup (wgmma), of which each warp here computes its own 16 rows. They are late: from its issue to
// the wait that covers it a product's sums are poison in the registers and may not be touched, and what it reads in
// shared memory may not be written; in half of all launches it is read only then.
#include <string.h>

#include "../device/emulated.h"
#include "../device/ptx_math.h"
#include "machine.h"

namespace emulator {
namespace {

constexpr unsigned kWarps = kMaxThreads / kWarp, kRows = 16, kMostColumns = 256, kMostDepth = 32;
constexpr unsigned kMostRegisters = kMostColumns / 2, kMostSums = 4, kMostFlights = 64;
constexpr unsigned kAllLanes = 0xffffffffu;

// What the registers of a warp will hold; `flights`: the products on their way that add to them.
struct Sums {
  unsigned registers, flights;
  void* at[kWarp][kMostRegisters];
  uint32_t value[kWarp][kMostRegisters];
};

struct Flight {
  EmulatedProduct of;
  unsigned left[kWarp][4];
  Sums* sums;
  unsigned group;
  const char* what;
};

struct Warp {
  Sums sums[kMostSums];
  Flight flights[kMostFlights];
  unsigned count, group;
  bool fenced;
  uint64_t issued;  // of all that the warp has issued, the same in all four of a warpgroup
};

Warp warps[kMaxCluster][kWarps];
const char* meeting;  // the instruction that the lanes meet at

Warp& warp_of(const Thread* thread) { return warps[thread->block->rank][thread->index / kWarp]; }

unsigned element_bytes(unsigned type) { return type == emulated_e4m3 || type == emulated_s8 ? 1 : 2; }
unsigned depth_of(unsigned type) { return 32 / element_bytes(type); }

// Each 16 bytes of a matrix: where they are, the row of the first of their elements (of the left matrix, or column of
// the right) and its k. As the PTX manual's canonical layouts have it.
template <class F>
void chunks_of(uint64_t matrix, bool transposed, unsigned first, unsigned rows, F&& take) {
  const unsigned mode = static_cast<unsigned>(matrix >> 62), wide = mode == 0 ? 1 : 16u >> mode;
  const unsigned begin = static_cast<unsigned>(matrix & 0x3fff) << 4, mask = wide - 1;
  const unsigned leading = static_cast<unsigned>(matrix >> 16 & 0x3fff) << 4;
  const unsigned stride = static_cast<unsigned>(matrix >> 32 & 0x3fff) << 4;
  if ((matrix >> 49 & 7) != 0) fault("%s: a base offset is not known here", meeting);
  auto chunk = [&](unsigned linear, unsigned row, unsigned k) { take(linear ^ (linear >> 7 & mask) << 4, row, k); };
  if (!transposed) {
    for (unsigned row = first; row < first + rows; ++row) {
      const unsigned line = begin + row / 8 * stride + row % 8 * wide * 16;
      for (unsigned half = 0; half < 2; ++half) chunk(line + half * (mode == 0 ? leading : 16), row - first, half);
    }
    return;
  }
  for (unsigned k = 0; k < 16; ++k) {
    for (unsigned row = first; row < first + rows; row += 8) {
      const unsigned eight = row / 8, line = begin + k % 8 * wide * 16;
      const unsigned place = mode == 0 ? line + eight * stride + k / 8 * leading
                                       : line + eight / wide * leading + eight % wide * 16 + k / 8 * stride;
      chunk(place, row - first, k);
    }
  }
}

double wide_of(unsigned type, const unsigned char* element) {
  uint16_t half;
  if (type == emulated_s8) return static_cast<signed char>(*element);
  if (type == emulated_e4m3) return ptx::number_of_e4m3(*element);
  memcpy(&half, element, 2);
  return static_cast<double>(type == emulated_f16 ? ptx::float_of_half(half) : ptx::float_of_bfloat(half));
}

// Elements by row and k, out of shared memory.
void load(const Block* block, uint64_t matrix, unsigned type, bool transposed, unsigned first, unsigned rows,
          double (*to)[kMostDepth]) {
  const unsigned size = element_bytes(type), many = 16 / size;
  chunks_of(matrix, transposed, first, rows, [&](unsigned place, unsigned row, unsigned k) {
    for (unsigned i = 0; i < many; ++i) {
      const double value = wide_of(type, block->shared + place + i * size);
      (transposed ? to[row + i][k] : to[row][k * many + i]) = value;
    }
  });
}

// The left matrix out of registers: adjacent elements share one, the first in its lowest bits.
void load_registers(const Flight& flight, double (*to)[kMostDepth]) {
  const unsigned size = element_bytes(flight.of.type), many = 4 / size, half = depth_of(flight.of.type) / 2;
  for (unsigned row = 0; row < kRows; ++row) {
    for (unsigned k = 0; k < 2 * half; ++k) {
      const unsigned word = flight.left[row % 8 * 4 + k % half / many][row / 8 + k / half * 2];
      to[row][k] = wide_of(flight.of.type, reinterpret_cast<const unsigned char*>(&word) + k % many * size);
    }
  }
}

void compute(const Block* block, unsigned warp, Flight* flight) {
  static double left[kRows][kMostDepth], right[kMostColumns][kMostDepth];
  const EmulatedProduct& of = flight->of;
  const unsigned depth = depth_of(of.type);
  if (of.left_shared) {
    load(block, of.left_matrix, of.type, of.left_transposed, warp % 4 * kRows, kRows, left);
  } else {
    load_registers(*flight, left);
  }
  load(block, of.right, of.type, of.right_transposed, 0, of.columns, right);
  for (unsigned row = 0; row < kRows; ++row) {
    for (unsigned column = 0; column < of.columns; ++column) {
      uint32_t& sum = flight->sums->value[row % 8 * 4 + column % 8 / 2][column / 8 * 4 + row / 8 * 2 + column % 2];
      const double before = of.add ? static_cast<double>(ptx::bits<float>(sum)) : 0.0;
      if (of.type == emulated_e4m3) {
        sum = ptx::bits<uint32_t>(static_cast<float>(ptx::short_sum(left[row], right[column], depth, before)));
        continue;
      }
      double product = 0.0;
      for (unsigned k = 0; k < depth; ++k) product += left[row][k] * right[column][k];
      if (of.type == emulated_s8) {
        sum = (of.add ? sum : 0) + static_cast<uint32_t>(static_cast<int32_t>(product));
      } else {
        sum = ptx::bits<uint32_t>(static_cast<float>(before + product));
      }
    }
  }
}

// Each 16 bytes that a product reads.
template <class F>
void operands_of(const EmulatedProduct& of, unsigned warp, F&& take) {
  auto place_of = [&](unsigned place, unsigned, unsigned) { take(place); };
  if (of.left_shared) chunks_of(of.left_matrix, of.left_transposed, warp % 4 * kRows, kRows, place_of);
  chunks_of(of.right, of.right_transposed, 0, of.columns, place_of);
}

bool overlaps(const Sums& sums, unsigned lane, const void* begin, size_t bytes) {
  const auto* first = static_cast<const char*>(sums.at[lane][0]);
  const auto* at = static_cast<const char*>(begin);
  return at < first + sums.registers * 4 && at + bytes > first;
}

// The sums of these registers, which are on their way already or are taken from there.
Sums* sums_of(Warp* warp, void* const brought[], const EmulatedProduct& of) {
  const unsigned registers = of.columns / 2;
  Sums* free = nullptr;
  for (Sums& sums : warp->sums) {
    if (sums.flights == 0) {
      free = &sums;
    } else if (sums.at[0][0] == of.sums[0] && sums.registers == registers) {
      return &sums;
    } else if (overlaps(sums, 0, of.sums[0], registers * 4)) {
      fault("%s: some of its sums are another product's, of another shape and not waited for", meeting);
    }
  }
  if (!warp->fenced) fault("%s: no wgmma.fence came after its registers were last free to be written", meeting);
  if (free == nullptr)
    fault("%s: the emulator knows %u sums of a warp at once, and there are more", meeting, kMostSums);
  free->registers = registers;
  for (unsigned lane = 0; lane < kWarp; ++lane) {
    void* const* at = static_cast<EmulatedProduct*>(brought[lane])->sums;
    memcpy(free->at[lane], at, registers * sizeof(void*));
    for (unsigned i = 0; i < registers; ++i) {
      memcpy(&free->value[lane][i], at[i], 4);
      memset(at[i], kPoison, 4);
    }
  }
  return free;
}

bool alike(const EmulatedProduct& a, const EmulatedProduct& b) {
  return a.right == b.right && a.left_matrix == b.left_matrix && a.add == b.add;
}

void issue(void* const brought[32], unsigned) {
  Block* block = current->block;
  const unsigned number = current->index / kWarp;
  Warp& warp = warp_of(current);
  const EmulatedProduct& of = *static_cast<EmulatedProduct*>(brought[0]);
  if (warp.count == kMostFlights)
    fault("%s: %u products are on their way, and none was waited for", meeting, warp.count);
  if (!of.left_shared && !warp.fenced) fault("%s: no wgmma.fence came after its left matrix", meeting);
  Flight* flight = &warp.flights[warp.count];
  *flight = {of, {}, sums_of(&warp, brought, of), warp.group, meeting};
  for (unsigned lane = 0; lane < kWarp; ++lane) {
    const EmulatedProduct& other = *static_cast<EmulatedProduct*>(brought[lane]);
    if (!alike(of, other)) fault("%s: lanes have different matrices", meeting);
    memcpy(flight->left[lane], other.left, sizeof other.left);
  }
  operands_of(of, number, [&](unsigned place) {
    shared_bytes(meeting, block, place, 16);
    shared_async_read(meeting, block, place, 16, true);
    is_read(block, place, 1);
  });
  warp.issued = (warp.issued + of.right * 31 + of.left_matrix * 7 + of.columns) * 0x9e3779b97f4a7c15ull;
  ++flight->sums->flights;
  ++warp.count;
  if (!launch.mode.late) compute(block, number, flight);
}

void land(Flight* flight) {
  const Block* block = current->block;
  const unsigned number = current->index / kWarp;
  meeting = flight->what;
  if (launch.mode.late) compute(block, number, flight);
  operands_of(flight->of, number, [&](unsigned place) { is_read(block, place, -1); });
  Sums* sums = flight->sums;
  if (--sums->flights > 0) return;
  for (unsigned lane = 0; lane < kWarp; ++lane) {
    for (unsigned i = 0; i < sums->registers; ++i) memcpy(sums->at[lane][i], &sums->value[lane][i], 4);
  }
}

// Those that all lanes wait for: of the committed groups the last `left` may be on their way still.
void land_all(void* const brought[32], unsigned) {
  Warp& warp = warp_of(current);
  const unsigned left = *static_cast<unsigned*>(brought[0]);
  unsigned kept = 0;
  for (unsigned i = 0; i < warp.count; ++i) {
    if (warp.flights[i].group + left < warp.group) {
      land(&warp.flights[i]);
    } else {
      warp.flights[kept++] = warp.flights[i];
    }
  }
  if (kept < warp.count) warp.fenced = false;
  warp.count = kept;
}

void meet(const char* what, void* brought, EmulatedCombine combine) {
  if (launch.threads % (4 * kWarp) != 0 && current->index / (4 * kWarp) == launch.threads / (4 * kWarp)) {
    fault("%s by threads that are no warpgroup: the block has %u", what, launch.threads);
  }
  emulated_meet(what, kAllLanes, brought, combine);
}

}  // namespace

void begin_products(const Block* block) {
  for (Warp& warp : warps[block->rank]) {
    for (Sums& sums : warp.sums) sums.flights = 0;
    warp.count = warp.group = 0;
    warp.fenced = false;
    warp.issued = 0;
  }
}

// Of the thread that ends; the last one of a block looks at all of it.
void check_products() {
  const Block* block = current->block;
  if (warp_of(current).count > 0)
    fault("ends while its products are on their way: no wgmma.wait_group came after them");
  if (block->live > 1) return;
  for (unsigned first = 0; (first + 4) * kWarp <= launch.threads; first += 4) {
    for (unsigned i = 1; i < 4; ++i) {
      if (warps[block->rank][first].issued != warps[block->rank][first + i].issued) {
        fault("the warps of warpgroup %u issued different products, or not as many", first / 4);
      }
    }
  }
}

const char* accumulator_at(const void* address, size_t bytes) {
  const Warp& warp = warp_of(current);
  if (warp.count == 0) return nullptr;
  for (unsigned i = 0; i < warp.count; ++i) {
    if (overlaps(*warp.flights[i].sums, current->index % kWarp, address, bytes)) return warp.flights[i].what;
  }
  return nullptr;
}

}  // namespace emulator

using namespace emulator;

extern "C" {

void emulated_wgmma(const char* what, EmulatedProduct* of) {
  meeting = what;
  meet(what, of, issue);
}

void emulated_wgmma_fence() {
  meet("wgmma.fence", nullptr, [](void* const[32], unsigned) { warp_of(current).fenced = true; });
}

void emulated_wgmma_commit() {
  meet("wgmma.commit_group", nullptr, [](void* const[32], unsigned) { ++warp_of(current).group; });
}

void emulated_wgmma_wait(unsigned left) { meet("wgmma.wait_group", &left, land_all); }

}  // extern "C"
