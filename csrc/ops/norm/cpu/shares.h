// SPDX-License-Identifier: MIT
// Sums over rows: the tree of chunks' shares (chunks.h) that a thread makes as it goes, and what is left of it,
// added up column by column at the end.
#pragma once

#include "ops/norm/cpu/chunks.h"
#include "ops/norm/cpu/rows.h"

namespace kw::cpu::KW_ISA {
namespace {

// Where sums over rows are kept; nullptr: not wanted.
struct Share {
  float* dweight;
  float* dbias;
  bool onto;  // they are added to what is there
};

// Of elements that are left, those that one vector takes.
inline int64_t lanes_of(int64_t left) { return left < kLanes ? left : kLanes; }

// The sums over chunks that this thread keeps, in the places of the part of them that it works on.
class Tree {
 public:
  Tree(const NormBackward& args, int64_t begin)
      : args_(args),
        nodes_(args.dweight || args.dbias ? nodes_of(args) : nullptr),
        self_(this_thread()),
        begin_(begin),
        pitch_(share_pitch(args.cols)) {}

  // For the sums of this chunk: still the last one, or the next, and then all of the last one's rows are in its sums.
  Share of(int64_t chunk) {
    if (!nodes_) return {};
    if (chunk == open_) return {share_.dweight, share_.dbias, true};
    close();
    Node& node = nodes_[chunk];
    node.chunks = 1;
    node.place = static_cast<int32_t>(begin_ + used_++);
    __atomic_store_n(&node.owner, self_, __ATOMIC_RELAXED);  // whose neighbour another thread may be looking for
    float* const sums = share_of(args_, node.place);
    open_ = chunk;
    share_ = {sums, sums + pitch_, false};
    return share_;
  }

  void close() {
    if (open_ < 0) return;
    int64_t start = open_;
    while (Node* left = left_of(start, nodes_[start].chunks)) {
      add_up(share_of(args_, left->place), share_of(args_, nodes_[start].place));
      --used_;
      left->chunks *= 2;
      start = left - nodes_;
    }
    open_ = -1;
  }

 private:
  // The node of as many chunks that those from `start` on are added to, if this thread has made it.
  Node* left_of(int64_t start, int64_t chunks) const {
    if (start / chunks % 2 == 0) return nullptr;
    Node* const left = nodes_ + start - chunks;
    return __atomic_load_n(&left->owner, __ATOMIC_RELAXED) == self_ && left->chunks == chunks ? left : nullptr;
  }

  void add_up(float* left, const float* right) const {
    const int64_t count = args_.centered ? 2 * pitch_ : pitch_;
    for (int64_t i = 0; i < count; i += kLanes) store(left + i, add(load(left + i), load(right + i)));
  }

  const NormBackward& args_;
  Node* const nodes_;
  const void* const self_;
  const int64_t begin_, pitch_;
  int64_t used_ = 0;   // of the places from begin_ on
  int64_t open_ = -1;  // the chunk whose sums are being made
  Share share_{};
};

// What is left to be added of the tree: the sums in their order, and how many additions follow each.
struct Rest {
  const float* sums[kMostChunks];
  int additions[kMostChunks];
  int count = 0;

  explicit Rest(const NormBackward& args) {
    const Node* const nodes = nodes_of(args);
    const int64_t chunks = chunks_of(args.rows).count;
    int32_t sizes[kMostChunks];
    int depth = 0;
    for (int64_t start = 0; start < chunks; start += nodes[start].chunks, ++count) {
      sums[count] = share_of(args, nodes[start].place);
      additions[count] = 0;
      sizes[depth++] = nodes[start].chunks;
      for (; depth > 1 && sizes[depth - 1] == sizes[depth - 2]; ++additions[count]) sizes[--depth - 1] *= 2;
    }
    if (count > 0) additions[count - 1] += depth - 1;
  }

  template <class Load>
  Vec total(Load load_one) const {
    Vec stack[kMostChunks];
    stack[0] = zero();  // of no rows
    int depth = 0;
    for (int i = 0; i < count; ++i) {
      stack[depth++] = load_one(sums[i]);
      for (int left = additions[i]; left > 0; --left, --depth)
        stack[depth - 2] = add(stack[depth - 2], stack[depth - 1]);
    }
    return stack[0];
  }
};

// The totals of these columns. T: as whose load_two the sums lie, but for a row's end.
template <class T, class W>
void add_shares(const Rest& rest, int64_t offset, W* out, int64_t begin, int64_t end) {
  int64_t i = begin;
  for (; i + 2 * kLanes <= end; i += 2 * kLanes) {
    const Two sum{rest.total([=](const float* sums) { return load(sums + offset + i); }),
                  rest.total([=](const float* sums) { return load(sums + offset + i + kLanes); })};
    store_two_as(static_cast<const T*>(nullptr), out + i, sum);
  }
  for (int64_t n; (n = lanes_of(end - i)) > 0; i += n) {
    store_part(out + i, rest.total([=](const float* sums) { return load_part(sums + offset + i, n); }), n);
  }
}

template <class T>
void add_shares_of(const NormBackward& args, const Rest& rest, int64_t offset, void* out, int64_t begin, int64_t end) {
  if (args.weight_dtype == args.dtype) return add_shares<T>(rest, offset, static_cast<T*>(out), begin, end);
  add_shares<T>(rest, offset, static_cast<float*>(out), begin, end);
}

inline void backward_columns(const NormBackward& args, int64_t begin, int64_t end) {
  const Rest rest(args);
  begin *= kColumnBlock;
  end = end * kColumnBlock < args.cols ? end * kColumnBlock : args.cols;
  void* const out[] = {args.dweight, args.dbias};
  for (int64_t i = 0; i < (args.centered ? 2 : 1); ++i) {
    const int64_t offset = i * share_pitch(args.cols);
    if (!out[i]) continue;
    if (args.dtype == KW_FLOAT32) {
      add_shares_of<float>(args, rest, offset, out[i], begin, end);
    } else if (args.dtype == KW_FLOAT16) {
      add_shares_of<Half>(args, rest, offset, out[i], begin, end);
    } else {
      add_shares_of<BFloat16>(args, rest, offset, out[i], begin, end);
    }
  }
}

}  // namespace
}  // namespace kw::cpu::KW_ISA
