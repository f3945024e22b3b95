// SPDX-License-Identifier: MIT
// From the tensors of kw_swiglu_tensors and kw_swiglu_backward_tensors to what those of addresses take.
#pragma once

#include "core/tensor.h"
#include "ops/gated/host/swiglu.h"

namespace kw {

struct SwigluTensors {
  const kw_tensor *out, *up_out, *dy, *gate, *up;  // as in Swiglu; where up is nullptr, gate and out hold both halves
};

namespace swiglu_tensors {

// What the others must be like: as many rows of `cols` elements, or of twice as many.
struct Base {
  const char* function;
  kw_tensor gate;
  int64_t cols;
};

template <typename Data>
kw_status place(const Base& base, const char* name, const kw_tensor* from, int64_t cols, Data* data, int64_t* stride) {
  kw_tensor found;
  TensorRows rows;
  KW_TRY(read_tensor(base.function, name, from, &found));
  KW_TRY(rows_beside(base.function, name, found, base.gate, cols, &rows));
  *data = found.data;
  *stride = rows.stride;
  return KW_OK;
}

// The half that follows in each row.
template <typename Data>
Data* second_half(const Base& base, Data* first) {
  const int64_t size = base.gate.dtype == KW_FLOAT32 ? 4 : 2;
  return reinterpret_cast<Data*>(reinterpret_cast<intptr_t>(first) + base.cols * size);
}

}  // namespace swiglu_tensors

inline kw_status read_swiglu(const char* function, const SwigluTensors& t, Swiglu* a, int32_t* device) {
  using namespace swiglu_tensors;
  const bool packed = t.up == nullptr;
  Base base{function, {}, 0};
  TensorRows rows;
  KW_TRY(read_tensor(function, "gate", t.gate, &base.gate));
  KW_TRY(rows_of(function, "gate", base.gate, &rows));
  if (packed && rows.cols % 2 != 0)
    return fail(KW_ERROR_INVALID_ARGUMENT, "%s: gate has %lld columns, and up is NULL; two halves make an even number",
                function, (long long)rows.cols);
  if (a->backward && packed != (t.up_out == nullptr))
    return fail(KW_ERROR_INVALID_ARGUMENT, "%s: %s is NULL; both dup and up may be, or neither", function,
                packed ? "up" : "dup");
  base.cols = packed ? rows.cols / 2 : rows.cols;
  a->rows = rows.count, a->cols = base.cols;
  a->dtype = base.gate.dtype;
  a->gate = base.gate.data, a->gate_stride = rows.stride;
  if (packed) {
    a->up = second_half(base, a->gate), a->up_stride = rows.stride;
  } else {
    KW_TRY(place(base, "up", t.up, base.cols, &a->up, &a->up_stride));
  }
  KW_TRY(place(base, a->backward ? "dgate" : "y", t.out, a->backward ? rows.cols : base.cols, &a->out, &a->out_stride));
  if (a->backward) {
    KW_TRY(place(base, "dy", t.dy, base.cols, &a->dy, &a->dy_stride));
    if (packed) {
      if (rows.count > 1 && a->out_stride < rows.cols)  // later only each half is known
        return fail(KW_ERROR_INVALID_ARGUMENT,
                    "%s: dgate_stride is %lld; rows of %lld elements that are written must not overlap", function,
                    (long long)a->out_stride, (long long)rows.cols);
      a->up_out = second_half(base, a->out), a->up_out_stride = a->out_stride;
    } else {
      KW_TRY(place(base, "dup", t.up_out, base.cols, &a->up_out, &a->up_out_stride));
    }
  }
  *device = base.gate.device;
  return KW_OK;
}

}  // namespace kw
