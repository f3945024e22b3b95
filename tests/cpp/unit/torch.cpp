// SPDX-License-Identifier: MIT
// kw_share_torch and what is read of a tensor then, with a stand-in for libtorch_cpu.so. A case runs in a process of
// its own, since a process shares its torch once.
#include "../standin/torch.h"

#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../check.h"
#include "core/tensor.h"

namespace {

const int64_t sizes[] = {3, 4}, strides[] = {6, 1};
float memory[24];
const int begins_here = 0;

StandinTensor right() {
  return {&begins_here, 0, memory, sizes, strides, 2, STANDIN_FLOAT32, STANDIN_CPU, -1, sizeof memory};
}

const kw_tensor* as_argument(const StandinTensor& tensor) { return reinterpret_cast<const kw_tensor*>(&tensor); }

bool load(const char* form) {
  char path[4096];
  snprintf(path, sizeof path, "%s/%s/libtorch_cpu.so", TORCH_DIR, form);
  const bool loaded = dlopen(path, RTLD_NOW | RTLD_LOCAL) != nullptr;
  CHECK(loaded, "%s", dlerror());
  return loaded;
}

void share() {
  if (load("whole")) CHECK(kw_share_torch() == KW_OK, "%s", kw_last_error());
}

void refuse(const StandinTensor& tensor, int line) {
  kw_tensor found;
  CHECK(kw_read_tensor(as_argument(tensor), &found) == KW_ERROR_INVALID_ARGUMENT &&
            strstr(kw_last_error(), "kw_read_tensor: tensor is no kw_tensor") == kw_last_error() &&
            strstr(kw_last_error(), "no tensor of a shared torch"),
        "line %d: %s", line, kw_last_error());
}

}  // namespace

CASE(without_torch) {
  // One could be found (the build says where), but is not loaded for this.
  CHECK_STATUS(kw_share_torch(), KW_ERROR_UNSUPPORTED, kw_last_error(), "kw_share_torch: ", "has not loaded",
               "libtorch_cpu.so");
  CHECK(!kw::torch::shared(), "there is none, and it is shared");
  refuse(right(), __LINE__);
  if (!load("whole")) return;
  refuse(right(), __LINE__);  // loaded, and not shared
  CHECK(kw_share_torch() == KW_OK && kw::torch::shared(), "once it is loaded: %s", kw_last_error());
  CHECK(kw_share_torch() == KW_OK, "again: %s", kw_last_error());
}

CASE(without_one_of_its_functions) {
  int forms = 0;
  for (const char* name : {TORCH_FUNCTIONS}) {
    ++forms;
    const pid_t child = fork();  // a process has one library of a name
    if (child == 0) {
      if (load(name)) {
        CHECK_STATUS(kw_share_torch(), KW_ERROR_UNSUPPORTED, kw_last_error(), "kw_share_torch: ", "libtorch_cpu.so",
                     "lacks functions");
        CHECK(!kw::torch::shared(), "shared without %s", name);
        refuse(right(), __LINE__);
      }
      _exit(failures > 0);
    }
    int status = -1;
    CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0, "without %s: status %d", name, status);
  }
  CHECK(forms == 18, "%d functions were left out", forms);
}

CASE(tensors_are_read) {
  share();
  const StandinTensor tensor = right();
  kw_tensor found{};
  CHECK(kw_read_tensor(as_argument(tensor), &found) == KW_OK, "%s", kw_last_error());
  CHECK(found.kind == KW_TENSOR && found.data == memory && found.sizes == sizes && found.strides == strides &&
            found.dims == 2 && found.dtype == KW_FLOAT32 && found.device == KW_CPU,
        "a member is another: %lld dimensions, type %d, device %d", static_cast<long long>(found.dims), found.dtype,
        found.device);
  kw::TensorRows rows{};
  CHECK(kw::rows_of("kw_f", "x", found, &rows) == KW_OK && rows.count == 3 && rows.cols == 4 && rows.stride == 6, "%s",
        kw_last_error());
  const kw_tensor described{KW_TENSOR, memory, sizes, strides, 2, KW_FLOAT16, KW_CPU};  // still taken beside them
  CHECK(kw_read_tensor(&described, &found) == KW_OK && found.dtype == KW_FLOAT16, "%s", kw_last_error());
}

CASE(every_type) {
  share();
  static_assert(KW_FLOAT64 == 3 && KW_UINT8 == 4 && KW_INT8 == 5 && KW_INT32 == 6, "the numbers never change");
  constexpr struct {
    int32_t torch, here;
  } kTypes[] = {{STANDIN_FLOAT32, KW_FLOAT32},
                {STANDIN_FLOAT16, KW_FLOAT16},
                {STANDIN_BFLOAT16, KW_BFLOAT16},
                {STANDIN_FLOAT64, KW_FLOAT64},
                {STANDIN_UINT8, KW_UINT8},
                {STANDIN_INT8, KW_INT8},
                {STANDIN_INT32, KW_INT32},
                {STANDIN_FLOAT8_E4M3FN, KW_FLOAT8_E4M3FN},
                {0, -1},
                {1, -1},
                {2, -1},
                {3, -1},
                {4, -1},
                {5, -1},
                {7, -1},
                {-1, -1}};
  for (const auto& type : kTypes) {
    StandinTensor tensor = right();
    tensor.dtype = type.torch;
    kw_tensor found{};
    CHECK(kw_read_tensor(as_argument(tensor), &found) == KW_OK && found.dtype == type.here, "type %d became %d: %s",
          type.torch, found.dtype, kw_last_error());
  }
}

CASE(every_device) {
  share();
  StandinTensor tensor = right();
  kw_tensor found{};
  tensor.device_type = STANDIN_CUDA;
  for (const int32_t index : {0, 1, 7}) {
    tensor.device_index = index;
    CHECK(kw_read_tensor(as_argument(tensor), &found) == KW_OK && found.device == index, "GPU %d became %d: %s", index,
          found.device, kw_last_error());
  }
  tensor.device_index = -1;  // a GPU without a number is not the CPU
  refuse(tensor, __LINE__);
  tensor.device_type = STANDIN_CPU, tensor.device_index = 2, tensor.fails = 7;  // of the CPU it is not asked
  CHECK(kw_read_tensor(as_argument(tensor), &found) == KW_OK && found.device == KW_CPU, "%s", kw_last_error());
  tensor.fails = 0;
  for (const int32_t type : {int{STANDIN_META}, 1, -1}) {
    tensor.device_type = type;
    refuse(tensor, __LINE__);
  }
}

CASE(a_function_that_fails) {
  share();
  StandinTensor tensor = right();
  tensor.device_type = STANDIN_CUDA, tensor.device_index = 0;
  for (tensor.fails = 1; tensor.fails <= 8; ++tensor.fails) refuse(tensor, static_cast<int>(tensor.fails));
  kw_tensor found{};
  CHECK(kw_read_tensor(as_argument(tensor), &found) == KW_OK, "%s", kw_last_error());
}

CASE(freed_memory) {
  share();
  StandinTensor tensor = right();
  kw_tensor found{};
  tensor.bytes = 0;  // data stays what it is in a view of a storage that was freed: its offset
  CHECK(kw_read_tensor(as_argument(tensor), &found) == KW_OK && found.data == nullptr, "%s", kw_last_error());
}

CASE(what_torch_says_is_checked) {
  share();
  StandinTensor tensor = right();
  kw_tensor found{};
  tensor.dims = -1;
  CHECK_STATUS(kw_read_tensor(as_argument(tensor), &found), KW_ERROR_INVALID_ARGUMENT, kw_last_error(),
               "tensor has -1 dimensions");
  tensor.dims = 0, tensor.sizes = tensor.strides = nullptr;
  CHECK(kw_read_tensor(as_argument(tensor), &found) == KW_OK && found.dims == 0, "%s", kw_last_error());
}

RUN_CASES()
