// SPDX-License-Identifier: MIT
// From the tensors of a step to launches of csrc/ops/optim/optimizer_update_*.cu.
#pragma once

#include "ops/optim/geometry.h"
#include "ops/optim/host/launch.h"
#include "ops/optim/host/optimizer.h"

namespace kw::optimizer {

constexpr int64_t kMostTiles = 0x7fffffff;           // of a launch
constexpr int64_t kMostOfTensor = int64_t{1} << 40;  // elements that a launch takes of a tensor: whole tiles

struct Launcher {
  Module* module;
  Kernel* kernels;  // by how many states
};

// Blocks of threads that a multiprocessor has room for.
constexpr int64_t kResident[] = {kOptimizerBlocksOfOne, kOptimizerBlocksOfTwo, kOptimizerBlocksOfThree};

// `count` elements of a tensor from `first` on, which begins a tile.
inline KwOptimizerTensor part_of(const kw_optimizer_tensor& t, int64_t first, int64_t count, int states, bool coded,
                                 int32_t dtype) {
  using blockwise::aligned_to;
  const int64_t size = dtype == KW_FLOAT32 ? 4 : 2, of_state = coded ? 1 : 4;
  const int64_t blocks = (t.count + kBlock - 1) / kBlock;
  auto moved = [&](const void* data, int64_t bytes) {
    return data == nullptr ? nullptr : blockwise::bytes_of(data) + bytes;
  };
  KwOptimizerTensor p{};
  p.param = moved(t.param, first * size);
  p.grad = moved(t.grad, first * size);
  p.state1 = moved(t.state1, first * of_state);
  p.absmax1 = moved(t.absmax1, first / kBlock * 4);
  if (states > 1) {
    p.state2 = moved(t.state2, first * of_state);
    p.absmax2 = moved(t.absmax2, first / kBlock * 4);
  }
  if (states > 2) {
    p.state3 = moved(p.state1, t.count * of_state);
    p.absmax3 = moved(p.absmax1, blocks * 4);
  }
  p.count = count;
  const uintptr_t whole = coded ? 8 : 16;
  p.aligned = aligned_to(p.param, 16) && aligned_to(p.grad, 16) && aligned_to(p.state1, whole) &&
              aligned_to(p.state2, whole) && aligned_to(p.state3, whole);
  return p;
}

struct Filling {
  const Launcher& launcher;
  const Context& context;
  void* stream;
  KwOptimizerParams params;
  int filled;
  int64_t tiles;
  int states;

  kw_status flush() {
    if (filled == 0) return KW_OK;
    const int64_t room = context.device->multiprocessors * kResident[states - 1];
    Launch how{static_cast<uint32_t>(tiles < room ? tiles : room), kOptimizerThreads};
    how.overlap = true;
    params.tiles = static_cast<unsigned>(tiles);
    filled = 0;
    tiles = 0;
    return launch(context, launcher.kernels[states - 1], how, stream, &params, sizeof params);
  }

  kw_status add(const KwOptimizerTensor& part) {
    const int64_t more = (part.count + kOptimizerTile - 1) / kOptimizerTile;
    if (filled == KW_OPTIMIZER_TENSORS || tiles + more > kMostTiles) KW_TRY(flush());
    tiles += more;
    params.tensor[filled] = part;
    params.tensor[filled++].end = static_cast<unsigned>(tiles);
    return KW_OK;
  }
};

inline kw_status run_on_device(const Launcher& launcher, int32_t device, void* stream, bool coded,
                               const OptimizerStep& s) {
  Context context;
  KW_TRY(module_context(*launcher.module, device, &context));
  Filling filling{launcher, context, stream, numbers_of(s), 0, 0, states_of(s.optimizer->rule)};
  filling.params.moving = blockwise::bytes_of(s.moving);
  filling.params.map1 = blockwise::bytes_of(s.map1);
  filling.params.map2 = blockwise::bytes_of(filling.states > 1 ? s.map2 : s.map1);
  for (int64_t i = 0; i < s.number; ++i) {
    const kw_optimizer_tensor& t = s.tensors[i];
    for (int64_t first = 0; first < t.count; first += kMostOfTensor) {
      const int64_t left = t.count - first, count = left < kMostOfTensor ? left : kMostOfTensor;
      KW_TRY(filling.add(part_of(t, first, count, filling.states, coded, s.dtype)));
    }
  }
  return filling.flush();
}

}  // namespace kw::optimizer
