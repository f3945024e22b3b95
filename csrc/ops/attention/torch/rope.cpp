// SPDX-License-Identifier: MIT
#include "ops/attention/api/rope.h"

#include "core/error.h"
#include "torch/operator.h"

namespace kw::torch {
namespace {

// From `index` on: cos, sin, positions, rotary_dim, interleaved, inverse.
kw_status turn(Call& call, const kw_tensor* q_out, const kw_tensor* k_out, const kw_tensor* k, int index) {
  return kw_rope_tensors(call.stream(), q_out, k_out, call.tensor(0), k, call.tensor(index), call.tensor(index + 1),
                         call.tensor(index + 2), call.whole(index + 3), call.flag(index + 4), call.flag(index + 5));
}

kw_status rope(Call& call) {
  const kw_tensor* y = nullptr;
  KW_TRY(call.make_in_order(*call.tensor(0), &y));
  return turn(call, y, nullptr, nullptr, 1);
}

kw_status rope_pair(Call& call) {
  const kw_tensor *q = nullptr, *k = nullptr;
  KW_TRY(call.make_in_order(*call.tensor(0), &q));
  KW_TRY(call.make_in_order(*call.tensor(1), &k));
  return turn(call, q, k, call.tensor(1), 2);
}

#define KW_OPTIONS "Tensor cos, Tensor sin, Tensor? positions, int rotary_dim, bool interleaved, bool inverse"
KW_TORCH(rope, "rope", "(Tensor x, " KW_OPTIONS ") -> Tensor")
KW_TORCH(rope_pair, "rope.pair", "(Tensor x, Tensor k, " KW_OPTIONS ") -> (Tensor, Tensor)")

}  // namespace
}  // namespace kw::torch
