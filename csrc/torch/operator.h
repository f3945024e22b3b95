// SPDX-License-Identifier: MIT
// Kernels for torch's dispatcher. A file of csrc/ops/<family>/torch has one function for each overload, of a Call, and
//
//   KW_TORCH(rms_norm_default, "rms_norm", "(Tensor x, Tensor? weight=None, float eps=1e-6) -> Tensor")
//
// lists it. The schema is the record's; an overload whose record has another is left to Python.
#pragma once

#include "torch/call.h"

namespace kw::torch {

struct Operator {
  const char* name;    // with its overload, as torch has it
  const char* schema;  // from the parenthesis on
  kw_status (*run)(Call&);
  Boxed boxed;
  Schema parsed;
  Operator* next;
  bool implemented;
};

// As the library is loaded.
void list(Operator& op);

// Runs a call; false where it is refused, and all that the stack held is freed. refuse() is what follows then: it
// throws torch's exception, through frames without anything to destroy.
bool serve(const Operator& op, Value* stack);
[[noreturn]] void refuse();

}  // namespace kw::torch

#define KW_TORCH(function, name, schema)                                                                 \
  extern kw::torch::Operator function##_operator;                                                        \
  static void function##_boxed(kw::torch::Value* stack, uint64_t, uint64_t) {                            \
    if (!kw::torch::serve(function##_operator, stack)) kw::torch::refuse();                              \
  }                                                                                                      \
  kw::torch::Operator function##_operator{name, schema, function, function##_boxed, {}, nullptr, false}; \
  __attribute__((constructor)) static void function##_listed() { kw::torch::list(function##_operator); }
