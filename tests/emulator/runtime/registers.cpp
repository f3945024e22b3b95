// SPDX-License-Identifier: MIT
// Registers that warps give back and take (setmaxnreg). A block begins with as many a thread as a kernel of its size
// may have; what that kernel really has is the compiler's and not known here.
#include "../device/emulated.h"
#include "machine.h"

namespace emulator {

void register_warps(Block* block) {
  constexpr unsigned kFile = 64 << 10, kMost = 248;
  const unsigned each = kFile / launch.threads / 8 * 8;
  for (unsigned& warp : block->registers) warp = each < kMost ? each : kMost;
  block->free_registers = 0;
}

}  // namespace emulator

using namespace emulator;

extern "C" void emulated_registers(unsigned count, bool more) {
  const char* what = more ? "setmaxnreg.inc" : "setmaxnreg.dec";
  emulated_meet(what, 0xffffffffu, nullptr, [](void* const[32], unsigned) {});
  Block* block = current->block;
  unsigned& own = block->registers[current->index / kWarp];
  if (count % 8 != 0 || count < 24 || count > 256)
    fault("%s to %u: multiples of 8 from 24 to 256 are known", what, count);
  if (current->index % kWarp == 0) {
    if (more ? count < own : count > own) fault("%s to %u registers: the warp has %u", what, count, own);
    struct Wanted {
      const Block* block;
      unsigned registers;
    } const wanted = {block, more ? (count - own) * kWarp : 0};
    wait_until(
        what, count,
        [](const void* w) {
          const auto* of = static_cast<const Wanted*>(w);
          return of->block->free_registers >= of->registers;
        },
        &wanted);
    block->free_registers += (own - count) * kWarp;
    own = count;
  }
  emulated_meet(what, 0xffffffffu, nullptr, [](void* const[32], unsigned) {});
}
