// SPDX-License-Identifier: MIT
// From tensors to a checked call of attention of few queries.
#pragma once

#include "core/tensor.h"
#include "ops/attention/host/decode.h"

namespace kw::decode_checks {

struct Tensors {
  const kw_tensor *out, *lse, *q, *k, *v, *k_new, *v_new, *lengths, *block_table, *batch_index, *cos, *sin, *sinks,
      *slopes;
};

kw_status read(const char* name, const Tensors& from, Decode* a, int32_t* device);

}  // namespace kw::decode_checks
