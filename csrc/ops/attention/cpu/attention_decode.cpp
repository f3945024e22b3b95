// SPDX-License-Identifier: MIT
// Attention of few queries with a cache on the CPU: new rows are appended, then all is as in attention.
#include "core/error.h"
#include "cpu/simd.h"
#include "ops/attention/cpu/problem_of.h"
#include "ops/attention/cpu/rope.h"
#include "ops/attention/cpu/scores.h"
#include "ops/attention/host/decode.h"

namespace kw::cpu {

#if KW_CPU_BASELINE

namespace KW_ISA {
namespace {

template <class T>
void append_rows(const AttentionProblem& a, const Decode& from) {
  for (int64_t batch = 0; batch < a.batches; ++batch) {
    const Sequence s = sequence_of(a, batch);
    for (int64_t head = 0; head < a.kv_heads; ++head)
      for (int64_t row = 0; row < a.new_rows; ++row) {
        const int64_t key = s.keys - a.new_rows + row;
        const AttentionTensor k = tensor_of(from.k_new), v = tensor_of(from.v_new);
        float turned[kMostWide];
        load_row(static_cast<const T*>(k.data) + batch * k.batch + head * k.head + row * k.row, a.d, 1.0f, turned);
        if (a.cos != nullptr) turn<T>(a, key, turned);
        store_row(turned, a.d, 1.0f, const_cast<T*>(row_of<T>(a, a.k, s, head, key)));
        memcpy(const_cast<T*>(row_of<T>(a, a.v, s, head, key)),
               static_cast<const T*>(v.data) + batch * v.batch + head * v.head + row * v.row,
               static_cast<size_t>(a.d_v) * sizeof(T));
      }
  }
}

kw_status check_places(const AttentionProblem& a, const Decode& from) {
  for (int64_t batch = 0; batch < a.batches; ++batch) {
    const int64_t keys = sequence_of(a, batch).keys,
                  pages = a.pages == nullptr ? 0 : (keys + a.page_rows - 1) / a.page_rows;
    for (int64_t i = 0; i < pages; ++i) {
      const int64_t page = a.pages[batch * a.pages_stride + i];
      if (page < 0 || page >= from.caches)
        return fail(KW_ERROR_INVALID_ARGUMENT,
                    "kw_attention_decode_tensors: block_table has %lld; there are %lld pages", (long long)page,
                    (long long)from.caches);
    }
    if (a.batch_index != nullptr && (a.batch_index[batch] < 0 || a.batch_index[batch] >= from.caches))
      return fail(KW_ERROR_INVALID_ARGUMENT, "kw_attention_decode_tensors: batch_index has %d; k has %lld batches",
                  a.batch_index[batch], (long long)from.caches);
  }
  return KW_OK;
}

}  // namespace
}  // namespace KW_ISA

kw_status attention_decode(const Decode& from) {
  AttentionProblem a = problem_of(from.of);
  a.lengths = from.lengths, a.pages = from.pages, a.pages_stride = from.pages_stride, a.page_rows = from.page_rows;
  a.batch_index = from.batch_index, a.new_rows = from.new_rows;
  a.cos = from.cos, a.sin = from.sin, a.rope_row = from.rope_row, a.pairs = from.pairs,
  a.max_positions = from.max_positions;
  a.interleaved = from.interleaved, a.moves = from.moves;
  KW_TRY(KW_ISA::check_places(a, from));
  if (a.new_rows > 0) {
    if (a.dtype == KW_FLOAT32) KW_ISA::append_rows<float>(a, from);
    if (a.dtype == KW_FLOAT16) KW_ISA::append_rows<Half>(a, from);
    if (a.dtype == KW_BFLOAT16) KW_ISA::append_rows<BFloat16>(a, from);
  }
  return run_attention(a);
}

#endif

}  // namespace kw::cpu
