// SPDX-License-Identifier: MIT
// What the launchers of the block-wise operators share.
#pragma once

#include "core/launch.h"
#include "ops/optim/host/blockwise.h"
#include "ops/optim/params.h"

namespace kw::blockwise {

inline char* bytes_of(const void* data) { return static_cast<char*>(const_cast<void*>(data)); }

inline bool aligned_to(const void* data, uintptr_t bytes) { return reinterpret_cast<uintptr_t>(data) % bytes == 0; }

// Units of 16 bytes of floats, and their codes.
inline bool aligned(const Blockwise& a) {
  return aligned_to(a.wide, 16) && aligned_to(a.codes, a.dtype == KW_FLOAT32 ? 4 : 8);
}

// As many blocks of threads as there are tiles of `units` units of 16 bytes, or as the GPU has room for at once.
inline uint32_t grid_of(int64_t count, int32_t dtype, int64_t units, const Device& device, int64_t resident) {
  const int64_t tile = units * (dtype == KW_FLOAT32 ? 4 : 8);
  const int64_t wanted = (count + tile - 1) / tile, room = device.multiprocessors * resident;
  return static_cast<uint32_t>(wanted < room ? wanted : room);
}

}  // namespace kw::blockwise
