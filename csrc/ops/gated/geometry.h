// SPDX-License-Identifier: MIT
// The numbers by which the launcher of swiglu plans and its kernels run. Host and device read this file.
#pragma once

namespace kw {

// An enum, since a constant of a namespace is a symbol in every image that sees it. Units a thread may have under way:
// so few, and many threads, were faster than more (benchmarks/ops/gated/notes/swiglu-notes.md).
enum : int {
  kSwigluThreads = 256,  // of a block, at most
  kSwigluSlots = 2,
  kSwigluBackwardSlots = 1,
  kSwigluShiftedSlots = 1,
  kSwigluElementSlots = 8,
};

}  // namespace kw
