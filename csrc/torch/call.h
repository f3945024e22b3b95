// SPDX-License-Identifier: MIT
// A call of a boxed kernel: arguments by their places in the schema, results in its order.
//
// A kernel asks for its arguments, makes its results and calls a C function of tensors. It returns that function's
// status, or kElsewhere. What is refused as an invalid argument, and what goes elsewhere, Python computes, copies or
// finds the words for: so a kernel may leave out all that is rare.
#pragma once

#include "torch/schema.h"
#include "torch/shim.h"

namespace kw::torch {

constexpr kw_status kElsewhere = -1;
constexpr int kMostDims = 12;

class Call {
 public:
  Call(const Schema& schema, Value* stack) : schema_(schema), stack_(stack) {}

  // Reads the tensors, and finds where the call runs. kElsewhere where one is not to be read.
  kw_status begin();

  // Arguments. A tensor that was left out is nullptr; of another optional that was left out, given() is false, and
  // there is nothing to read.
  const kw_tensor* tensor(int place) const { return given_[place].kind == KW_TENSOR ? &given_[place] : nullptr; }
  bool given(int place) const { return !schema_.arguments[place].optional || stack_[place] != 0; }
  double real(int place) const;
  int64_t whole(int place) const { return static_cast<int64_t>(value(place)); }
  bool flag(int place) const { return (value(place) & 0xff) != 0; }
  int32_t type(int place) const;  // an element type, or kOtherType
  const char* text(int place) const;
  // The place of a text in a list of them, or -1.
  int one_of(int place, const char* const* names, int count) const;
  // Sizes of a list; false where there are more than kMostDims.
  bool list(int place, int64_t* sizes, int* count) const;

  // A queue of the device that the first tensor is on; nullptr on the CPU.
  void* stream() const { return stream_; }

  // Makes the next result: without gaps, where the first tensor is.
  kw_status make(int64_t dims, const int64_t* sizes, int32_t dtype, const kw_tensor** result);
  // As many rows as x has, of another length: what a product gives.
  kw_status make_rows(const kw_tensor& x, int64_t cols, int32_t dtype, const kw_tensor** result);
  kw_status make_like(const kw_tensor& other, const kw_tensor** result) {
    return make(other.dims, other.sizes, other.dtype, result);
  }
  // The same, in memory in the order of the other's dimensions, as torch.empty_like() makes it.
  kw_status make_in_order(const kw_tensor& other, const kw_tensor** result);
  // The next result is this argument itself, or bytes for this call alone.
  kw_status scratch(int64_t bytes, void** at);

  // Whether something written reaches into another argument, or into itself.
  bool written_apart() const;

  void finish();   // frees the arguments; results are on the stack then
  void discard();  // frees the results

 private:
  struct Made {
    Handle handle;
    kw_tensor tensor;
    int64_t sizes[kMostDims], strides[kMostDims];
  };

  // An optional is the address of its value.
  Value value(int place) const {
    return schema_.arguments[place].optional ? *reinterpret_cast<const Value*>(stack_[place]) : stack_[place];
  }
  kw_status allocate(int64_t dims, const int64_t* sizes, const int64_t* strides, int32_t dtype, Made* made);
  kw_status add(int64_t dims, const int64_t* sizes, const int64_t* strides, int32_t dtype, const kw_tensor** result);

  const Schema& schema_;
  Value* const stack_;
  void* stream_ = nullptr;
  int32_t device_ = KW_CPU;
  int results_ = 0;
  bool has_scratch_ = false;
  Made scratch_;
  Made made_[kMostResults];
  kw_tensor given_[kMostArguments];
};

// Frees what a stack holds for the dispatcher: its arguments, or `results` tensors.
void free_arguments(const Schema& schema, Value* stack);
void free_results(int results, Value* stack);

}  // namespace kw::torch
