// SPDX-License-Identifier: MIT
// The numbers by which the launcher of rope plans and its kernels run. Host and device read this file.
#pragma once

namespace kw {

// An enum, since a constant of a namespace is a symbol in every image that sees it.
enum : int {
  kRopeThreads = 256,  // of a block, at most
  kRopeHeads = 2,      // of a thread, at most, all turned by the same angles
};

}  // namespace kw
