// SPDX-License-Identifier: MIT
// What a schema of torch says of the arguments of a boxed kernel.
#pragma once

namespace kw::torch {

constexpr int kMostArguments = 32, kMostResults = 4;

enum class Kind : unsigned char { kTensor, kReal, kWhole, kFlag, kString, kList, kType };

struct Argument {
  Kind kind;
  bool optional;
  bool written;
};

struct Schema {
  Argument arguments[kMostArguments];
  int count;
  int results;
};

// Reads "(Tensor x, float eps=1e-6) -> Tensor"; false where it has a type that kernels here do not read, or too many.
bool parse(const char* text, Schema* schema);

}  // namespace kw::torch
