// SPDX-License-Identifier: MIT
// What kw_set_option keeps for the GPU path.
#pragma once

namespace kw {

struct Options {
  char kernels[4096];  // absolute directory; empty: the library's own
  char arch[64];       // forced code; empty: chosen by device
};

// A copy, so that a reader never sees half of a change.
void read_options(Options* options);

}  // namespace kw
