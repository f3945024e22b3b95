// SPDX-License-Identifier: MIT
// A toy operator with every type that a schema may have, called as torch's dispatcher calls it, with a stand-in for
// libtorch_cpu.so: what the kernel reads, its results, and that nothing stays behind.
#include "../standin/torch.h"

#include <dlfcn.h>
#include <math.h>

#include "../check.h"
#include "../standin/torch_calls.h"
#include "core/error.h"
#include "torch/operator.h"

namespace {

using kw::torch::Call;
using kw::torch::kElsewhere;
using kw::torch::Value;

constexpr char kSchema[] =
    "(Tensor x, Tensor? weight, float? eps, float scale=1., int[] sizes, int[]? order, str mode=\"sum\", str? name, "
    "int? "
    "many=None, bool flag, bool? maybe, SymInt n, ScalarType out, Tensor(a!)? kept=None) -> (Tensor, Tensor)";
enum { kX, kWeight, kEps, kScale, kSizes, kOrder, kMode, kName, kMany, kFlag, kMaybe, kN, kOut, kKept, kArguments };

// What the last call saw.
struct Seen {
  const char* what = "nothing";
  double eps, scale;
  int mode, counts[2];
  int64_t sizes[kw::torch::kMostDims], order[kw::torch::kMostDims], many, n, strides[5];
  bool weight, kept, flag, maybe;
  int32_t x_type, out;
  char name[16];
} seen;
int64_t wanted_scratch;

kw_status toy(Call& call) {
  static const char* const kModes[] = {"none", "mean", "sum"};
  const kw_tensor& x = *call.tensor(kX);
  seen = {};
  seen.x_type = x.dtype;
  for (int64_t i = 0; i < x.dims && i < 5; ++i) seen.strides[i] = x.strides[i];
  seen.weight = call.tensor(kWeight) != nullptr;
  seen.kept = call.tensor(kKept) != nullptr;
  seen.eps = call.given(kEps) ? call.real(kEps) : -1;
  seen.scale = call.real(kScale);
  seen.mode = call.one_of(kMode, kModes, 3);
  if (seen.mode < 0) return kElsewhere;
  if (!call.list(kSizes, seen.sizes, &seen.counts[0])) return kElsewhere;
  if (call.given(kOrder) && !call.list(kOrder, seen.order, &seen.counts[1])) return kElsewhere;
  if (call.given(kName)) snprintf(seen.name, sizeof seen.name, "%s", call.text(kName));
  seen.many = call.given(kMany) ? call.whole(kMany) : -1;
  seen.flag = call.flag(kFlag);
  seen.maybe = call.given(kMaybe) && call.flag(kMaybe);
  seen.n = call.whole(kN);
  seen.out = call.type(kOut);
  const kw_tensor *first = nullptr, *second = nullptr;
  KW_TRY(call.make_like(x, &first));
  KW_TRY(call.make(seen.counts[0], seen.sizes, seen.out, &second));
  void* scratch = nullptr;
  KW_TRY(call.scratch(wanted_scratch, &scratch));
  if (wanted_scratch > 0) memset(scratch, 1, static_cast<size_t>(wanted_scratch));
  return wanted_scratch > 64 ? call.scratch(1, &scratch) : KW_OK;  // a second plan: there is one workspace a call
}

KW_TORCH(toy, "toy", "none")

const int64_t sizes[] = {2, 3, 1, 4, 5}, strides[] = {700, 80, 9, 20, 2};
alignas(16) char memory[16384];

StandinTensor tensor_of(int32_t type) {
  return {nullptr, 0, memory, sizes, strides, 5, type, STANDIN_CPU, -1, sizeof memory};
}

bool prepare() {
  char path[4096];
  snprintf(path, sizeof path, "%s/calls/libtorch_cpu.so", TORCH_DIR);
  const bool loaded = dlopen(path, RTLD_NOW | RTLD_GLOBAL) != nullptr;
  CHECK(loaded, "%s", dlerror());
  toy_operator.schema = kSchema;
  const kw_status status = loaded ? kw_torch_implement("toy", kSchema) : KW_OK;
  CHECK(status == KW_OK, "%s", kw_last_error());
  return loaded && status == KW_OK;
}

template <class Function>
Function of_torch(Function, const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
}
#define TORCH(name) of_torch(&name, #name)

Value of(double number) {
  Value value = 0;
  memcpy(&value, &number, sizeof value);
  return value;
}

// A whole stack; `optional`: with all that may be left out.
void fill(Value* stack, int32_t type, bool optional, const char* mode = "sum") {
  const auto maybe = [&](Value value) { return optional ? TORCH(standin_optional)(value) : 0; };
  const StandinTensor tensor = tensor_of(type);
  const int64_t first[] = {7, 6}, second[] = {2, 0, 1};
  const auto held = [&] { return optional ? TORCH(standin_optional)(TORCH(standin_tensor)(&tensor)) : 0; };
  stack[kX] = TORCH(standin_tensor)(&tensor);
  stack[kWeight] = held();
  stack[kEps] = maybe(of(0.25));
  stack[kScale] = of(-1.5);
  stack[kSizes] = TORCH(standin_list)(2, first);
  stack[kOrder] = optional ? TORCH(standin_optional)(TORCH(standin_list)(3, second)) : 0;
  stack[kMode] = TORCH(standin_string)(mode);
  stack[kName] = optional ? TORCH(standin_optional)(TORCH(standin_string)("a name")) : 0;
  stack[kMany] = maybe(static_cast<Value>(-9));
  stack[kFlag] = 1;
  stack[kMaybe] = maybe(1);
  stack[kN] = 1ull << 40;
  stack[kOut] = static_cast<Value>(type);
  stack[kKept] = held();
}

const StandinTensor& result(Value value) { return **reinterpret_cast<StandinTensor**>(value); }

void check_results(Value* stack, int32_t type) {
  const StandinTensor &like = result(stack[0]), &made = result(stack[1]);
  CHECK(like.dims == 5 && like.sizes[3] == 4 && like.strides[0] == 60 && like.dtype == type, "the first result");
  CHECK(made.dims == 2 && made.sizes[0] == 7 && made.sizes[1] == 6 && made.dtype == type, "the second result");
  kw::torch::free_results(2, stack);
}

constexpr struct {
  int32_t theirs, ours;
} kTypes[] = {{STANDIN_FLOAT32, KW_FLOAT32},   {STANDIN_FLOAT16, KW_FLOAT16},
              {STANDIN_BFLOAT16, KW_BFLOAT16}, {STANDIN_FLOAT64, KW_FLOAT64},
              {STANDIN_UINT8, KW_UINT8},       {STANDIN_INT8, KW_INT8},
              {STANDIN_INT32, KW_INT32},       {STANDIN_FLOAT8_E4M3FN, KW_FLOAT8_E4M3FN}};

}  // namespace

CASE(every_type_of_a_schema) {
  if (!prepare()) return;
  Value stack[kArguments];
  for (const auto& type : kTypes) {
    fill(stack, type.theirs, true);
    TORCH(standin_kernel)()(stack, kArguments, 2);
    CHECK(seen.x_type == type.ours && seen.out == type.ours, "types %d and %d", seen.x_type, seen.out);
    CHECK(seen.weight && seen.kept && seen.flag && seen.maybe, "tensors and flags that were given");
    CHECK(fabs(seen.eps - 0.25) < 1e-12 && fabs(seen.scale + 1.5) < 1e-12, "eps %g scale %g", seen.eps, seen.scale);
    CHECK(seen.counts[0] == 2 && seen.sizes[0] == 7 && seen.sizes[1] == 6, "%d sizes", seen.counts[0]);
    CHECK(seen.counts[1] == 3 && seen.order[0] == 2 && seen.order[2] == 1, "%d of an order", seen.counts[1]);
    CHECK(seen.mode == 2 && strcmp(seen.name, "a name") == 0, "mode %d, name %s", seen.mode, seen.name);
    CHECK(seen.many == -9 && seen.n == int64_t{1} << 40, "%lld and %lld", (long long)seen.many, (long long)seen.n);
    for (int i = 0; i < 5; ++i)
      CHECK(seen.strides[i] == strides[i], "stride %d is %lld", i, (long long)seen.strides[i]);
    check_results(stack, type.theirs);
  }
  CHECK(TORCH(standin_alive)() == 0, "%d objects were not freed", TORCH(standin_alive)());
}

CASE(what_is_left_out) {
  if (!prepare()) return;
  Value stack[kArguments];
  wanted_scratch = 64;
  fill(stack, STANDIN_FLOAT32, false, "mean");
  TORCH(standin_kernel)()(stack, kArguments, 2);
  CHECK(!seen.weight && !seen.kept && seen.flag && !seen.maybe && seen.mode == 1, "what was not given");
  CHECK(seen.eps < 0 && seen.many == -1 && seen.counts[1] == 0 && seen.name[0] == 0, "eps %g", seen.eps);
  check_results(stack, STANDIN_FLOAT32);
  CHECK(TORCH(standin_alive)() == 0, "%d objects were not freed", TORCH(standin_alive)());
}

// A text that is none of its set, and a second workspace: not served here, and all of it is freed or handed on.
CASE(what_is_not_served) {
  if (!prepare()) return;
  Value stack[kArguments];
  for (int64_t scratch : {0, 65}) {
    wanted_scratch = scratch;
    fill(stack, STANDIN_BFLOAT16, true, scratch == 0 ? "product" : "sum");
    const int before = TORCH(standin_alive)();
    CHECK(!kw::torch::serve(toy_operator, stack), "served");
    // Python is given the address of a text, which lives as long as the call.
    CHECK(TORCH(standin_alive)() == before - 1, "%d results stayed", TORCH(standin_alive)() - before + 1);
    stack[kMode] = TORCH(standin_string)("");
    kw::torch::free_arguments(toy_operator.parsed, stack);
    CHECK(TORCH(standin_alive)() == 0, "%d objects were not freed", TORCH(standin_alive)());
  }
}

CASE(schemas_that_kernels_do_not_read) {
  kw::torch::Schema schema;
  CHECK(kw::torch::parse(kSchema, &schema) && schema.count == kArguments && schema.results == 2, "the toy's");
  CHECK(schema.arguments[kKept].written && schema.arguments[kKept].optional, "what is written");
  for (const char* text : {"(Device d) -> Tensor", "(Tensor[] x) -> Tensor", "(Tensor x) -> Tensor[]", "(Tensor x",
                           "(Tensor x) -> int", "Tensor x) -> Tensor", "(Tensor x) -> Tensor?"})
    CHECK(!kw::torch::parse(text, &schema), "%s was read", text);
}

RUN_CASES()
