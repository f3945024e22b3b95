// SPDX-License-Identifier: MIT
#include "torch/operator.h"

#include <stdio.h>
#include <string.h>

#include "core/error.h"
#include "core/fork.h"

namespace kw::torch {
namespace {

constexpr const char* kNamespace = "kernelwright";
constexpr const char* kElsewhereNamespace = "_kernelwright";           // where Python keeps what kernels leave to it
constexpr uint64_t kVersion = uint64_t{2} << 56 | uint64_t{10} << 48;  // of the shim that stacks are laid out by

Operator* listed;
bool python_is_there;

// Of the call that this thread has handed to Python: what failed here, and whether Python refused it.
thread_local kw_status failed;
thread_local bool refused;

// Replaces the strings of a call by the addresses of their characters, which Python's operators take as numbers:
// torch's dispatcher, called from C, copies each string that it is given and never frees the copy (2.10 to 2.13).
// One that may be left out stays as it is: no schema here has any.
int lend_strings(const Schema& schema, Value* stack, Handle* strings) {
  int count = 0;
  for (int i = 0; i < schema.count; ++i) {
    if (schema.arguments[i].kind != Kind::kString || schema.arguments[i].optional) continue;
    const char* characters = "";
    strings[count] = reinterpret_cast<Handle>(stack[i]);
    shim().string(strings[count++], &characters);
    stack[i] = reinterpret_cast<Value>(characters);
  }
  return count;
}

// What remains of a call that no kernel here has served; false where it is refused.
bool elsewhere(const Operator& op, Value* stack, kw_status status) {
  if (!__atomic_load_n(&python_is_there, __ATOMIC_ACQUIRE)) {
    free_arguments(op.parsed, stack);
    if (status == kElsewhere)
      fail(KW_ERROR_UNSUPPORTED, "%s: such a call needs kernelwright's Python package", op.name);
    return false;
  }
  char name[96], overload[48] = "";
  const char* const dot = strchr(op.name, '.');
  const size_t length = dot != nullptr ? static_cast<size_t>(dot - op.name) : strlen(op.name);
  snprintf(name, sizeof name, "%s::%.*s", kElsewhereNamespace, static_cast<int>(length), op.name);
  if (dot != nullptr) snprintf(overload, sizeof overload, "%s", dot + 1);
  failed = status == kElsewhere || status == KW_ERROR_INVALID_ARGUMENT ? KW_OK : status;
  refused = false;
  Handle strings[kMostArguments];
  const int count = lend_strings(op.parsed, stack, strings);
  const bool thrown = shim().call(name, overload, stack, kVersion) != 0;  // takes what is on the stack
  for (int i = 0; i < count; ++i) shim().delete_string(strings[i]);
  failed = KW_OK;
  if (!thrown && !refused) return true;
  if (!thrown) free_results(op.parsed.results, stack);
  if (!refused) fail(KW_ERROR_SYSTEM, "%s: %s", op.name, shim().what != nullptr ? shim().what() : "Python was stopped");
  return false;
}

}  // namespace

void list(Operator& op) {
  op.next = listed;
  listed = &op;
}

bool serve(const Operator& op, Value* stack) {
  Call call(op.parsed, stack);
  kw_status status = call.begin();
  if (status == KW_OK) status = op.run(call);
  if (status == KW_OK) {
    call.finish();
    return true;
  }
  call.discard();
  return elsewhere(op, stack, status);
}

void refuse() {
  shim().check(false, "kernelwright", "kernelwright", 0, kw_last_error());
  __builtin_unreachable();
}

namespace {

kw_status implement(const char* function, const Shim& s, Operator& op) {
  if (op.implemented) return KW_OK;
  static Handle on_cpu, on_cuda;  // live as long as the process
  static const struct {
    const char* key;
    Handle* library;
  } kKeys[] = {{"CPU", &on_cpu}, {"CUDA", &on_cuda}};
  for (const auto& one : kKeys) {
    if (*one.library == nullptr && s.init_impl(kNamespace, one.key, "kernelwright", 0, one.library) != 0)
      return fail(KW_ERROR_UNSUPPORTED, "%s: torch takes no kernels for %s", function, one.key);
    if (s.impl(*one.library, op.name, op.boxed, kVersion) != 0)
      return fail(KW_ERROR_UNSUPPORTED, "%s: torch takes no kernel of %s for %s", function, op.name, one.key);
  }
  op.implemented = true;
  return KW_OK;
}

// The schema and the kernels of an operator that nobody has registered.
kw_status define(const char* function, const Shim& s, Operator& op) {
  static Handle library;  // lives as long as the process
  if (op.implemented) return KW_OK;
  char whole[512];
  const int length = snprintf(whole, sizeof whole, "%s%s", op.name, op.schema);
  if (length >= static_cast<int>(sizeof whole) || !parse(op.schema, &op.parsed))
    return fail(KW_ERROR_SYSTEM, "%s: the schema of %s is none that kernels here read", function, op.name);
  if (library == nullptr && s.init_fragment(kNamespace, "kernelwright", 0, &library) != 0)
    return fail(KW_ERROR_UNSUPPORTED, "%s: torch takes no operators of %s", function, kNamespace);
  if (s.def(library, whole) != 0)
    return fail(KW_ERROR_UNSUPPORTED, "%s: torch takes no operator %s::%s: %s", function, kNamespace, whole,
                s.what != nullptr ? s.what() : "it may have one of that name");
  return implement(function, s, op);
}

}  // namespace
}  // namespace kw::torch

kw_status kw_torch_implement(const char* name, const char* schema) {
  using namespace kw::torch;
  constexpr const char* kName = "kw_torch_implement";
  if (name == nullptr || schema == nullptr)
    return kw::fail(KW_ERROR_INVALID_ARGUMENT, "%s: %s is NULL", kName, name == nullptr ? "name" : "schema");
  const Shim* shim = nullptr;
  KW_TRY(open_shim(kName, &shim));
  for (Operator* at = listed; at != nullptr; at = at->next) {
    Operator& op = *at;
    if (strcmp(op.name, name) != 0) continue;
    if (strcmp(op.schema, schema) != 0 || !parse(op.schema, &op.parsed))
      return kw::fail(KW_ERROR_UNSUPPORTED, "%s: the kernel of %s is for %s, not for %s", kName, name, op.schema,
                      schema);
    __atomic_store_n(&python_is_there, true, __ATOMIC_RELEASE);
    return implement(kName, *shim, op);
  }
  return kw::fail(KW_ERROR_UNSUPPORTED, "%s: there is no kernel of %s for torch in this library", kName, name);
}

kw_status kw_torch_register(void) {
  using namespace kw::torch;
  constexpr const char* kName = "kw_torch_register";
  const Shim* shim = nullptr;
  KW_TRY(open_shim(kName, &shim));
  if (__atomic_load_n(&python_is_there, __ATOMIC_ACQUIRE)) return KW_OK;  // the package has registered all
  kw_share_openmp();  // torch's threads; where it has none the library's own compute
  kw_status status = KW_OK;
  kw::hold_options();
  for (Operator* at = listed; at != nullptr && status == KW_OK; at = at->next) status = define(kName, *shim, *at);
  kw::release_options();
  return status;
}

int32_t kw_torch_failed(void) { return kw::torch::failed; }

void kw_torch_refuse(const char* words) {
  kw::torch::refused = true;
  kw::fail(KW_ERROR_INVALID_ARGUMENT, "%s", words != nullptr ? words : "");
}
