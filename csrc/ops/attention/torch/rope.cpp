// SPDX-License-Identifier: MIT
#include "ops/attention/api/rope.h"

#include "core/error.h"
#include "core/sizes.h"
#include "core/tensor.h"
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

// --- in place: what is written may share memory with nothing else -----------------

struct Span {
  uintptr_t first, end;
};

Span span(const kw_tensor& t) {
  uint64_t elements = 1;
  for (int64_t i = 0; i < t.dims; ++i) {
    if (t.sizes[i] == 0) return {0, 0};
    elements += static_cast<uint64_t>(t.sizes[i] - 1) * static_cast<uint64_t>(t.strides[i]);
  }
  const uintptr_t first = reinterpret_cast<uintptr_t>(t.data);
  return {first, first + elements * size_of(t.dtype)};
}

bool meet(const kw_tensor& a, const kw_tensor& b) {
  const Span left = span(a), right = span(b);
  return left.first < right.end && right.first < left.end;
}

// Whether each dimension's stride is beyond what those with smaller ones reach.
bool elements_apart(const kw_tensor& t) {
  int64_t reach = 0, least = 0;
  for (int64_t left = t.dims; left > 0; --left) {
    int64_t next = -1;
    for (int64_t i = 0; i < t.dims; ++i)
      if (t.sizes[i] > 1 && t.strides[i] > least && (next < 0 || t.strides[i] < t.strides[next])) next = i;
    for (int64_t i = 0; i < t.dims; ++i)
      if (t.sizes[i] > 1 && (t.strides[i] <= 0 || (i != next && next >= 0 && t.strides[i] == t.strides[next])))
        return false;
    if (next < 0) return true;
    if (t.strides[next] <= reach) return false;
    least = t.strides[next];
    reach += least * (t.sizes[next] - 1);
  }
  return true;
}

// Whether k's heads lie beside x's in each row of one tensor, as in the product that has both.
bool between(const kw_tensor& x, const kw_tensor& k) {
  if (x.dims != 4 || k.dims != 4 || x.dtype != k.dtype || x.strides[0] != k.strides[0] || x.strides[2] != k.strides[2])
    return false;
  const kw_tensor &first = x.data < k.data ? x : k, &second = x.data < k.data ? k : x;
  const auto heads = [](const kw_tensor& t) { return (t.sizes[1] - 1) * t.strides[1] + t.sizes[3]; };
  const uintptr_t bytes = reinterpret_cast<uintptr_t>(second.data) - reinterpret_cast<uintptr_t>(first.data);
  const int64_t away = static_cast<int64_t>(bytes / size_of(x.dtype)), end = away + heads(second);
  const int64_t batch = x.sizes[0] > 1 ? x.strides[0] : kMaxElements,
                row = x.sizes[2] > 1 ? x.strides[2] : kMaxElements;
  const int64_t step = row < batch ? row : batch, other = row < batch ? batch : row;
  const int64_t count = row < batch ? x.sizes[2] : x.sizes[0];
  return heads(first) <= away && end <= step && (other == kMaxElements || step * count <= other);
}

// `written` is the number of tensors that are; the tables follow them.
bool alone(const Call& call, int written) {
  for (int i = 0; i < written; ++i) {
    const kw_tensor& x = *call.tensor(i);
    if (!elements_apart(x)) return false;
    for (int j = written; j < written + 3; ++j)
      if (call.tensor(j) != nullptr && meet(x, *call.tensor(j))) return false;
  }
  return written < 2 || !meet(*call.tensor(0), *call.tensor(1)) || between(*call.tensor(0), *call.tensor(1));
}

kw_status rope_x_(Call& call) {
  if (!alone(call, 1)) return kElsewhere;
  return turn(call, call.tensor(0), nullptr, nullptr, 1);
}

kw_status rope_pair_(Call& call) {
  if (!alone(call, 2)) return kElsewhere;
  return turn(call, call.tensor(0), call.tensor(1), call.tensor(1), 2);
}

#define KW_OPTIONS "Tensor cos, Tensor sin, Tensor? positions, int rotary_dim, bool interleaved, bool inverse"
KW_TORCH(rope, "rope", "(Tensor x, " KW_OPTIONS ") -> Tensor")
KW_TORCH(rope_pair, "rope.pair", "(Tensor x, Tensor k, " KW_OPTIONS ") -> (Tensor, Tensor)")
KW_TORCH(rope_x_, "rope.x_", "(Tensor(a!) x, " KW_OPTIONS ") -> ()")
KW_TORCH(rope_pair_, "rope.pair_", "(Tensor(a!) x, Tensor(b!) k, " KW_OPTIONS ") -> ()")

}  // namespace
}  // namespace kw::torch
