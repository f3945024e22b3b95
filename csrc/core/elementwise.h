// SPDX-License-Identifier: MIT
// The host's part of operators that compute each element by itself: checks, plan and launch, the same for all of them.
//
//   KW_ELEMENTWISE(softcap, "softcap", ({"x"}), ({"y"}), 1)
//
// makes kw::softcap of the image "softcap", with one number. Its kernels are those of device/elementwise.cuh, its CPU
// path is that of cpu/elementwise.h, and its entry point calls run_elementwise().
#pragma once

#include "core/elementwise_call.h"
#include "core/launch.h"
#include "cpu/isa.h"

namespace kw {

struct Elementwise {
  const char* function;  // of the C ABI, for messages
  int numbers;
  const char* inputs[KW_ELEMENTWISE_INPUTS];  // as the C ABI names them; nullptr ends them
  const char* outputs[KW_ELEMENTWISE_OUTPUTS];
  cpu::Range (*cpu)();  // of the instruction set that runs; nullptr where there is none
  Module& module;
  Kernel kernels[3];  // by element type, as the C ABI numbers them
};

// Results may be inputs themselves; any other overlap is undefined. Pointers need only their element's alignment.
kw_status run_elementwise(Elementwise& op, int32_t device, void* stream, ElementwiseCall call);

}  // namespace kw

#define KW_LIST_(...) __VA_ARGS__

// In no namespace. `name` is that of the C function without kw_, of the kernels and of KW_CPU_ELEMENTWISE().
#define KW_ELEMENTWISE(name, image, inputs, outputs, numbers)      \
  namespace kw {                                                   \
  static Module name##_module{image};                              \
  KW_ELEMENTWISE_OF(name, name##_module, inputs, outputs, numbers) \
  }

// In namespace kw, where an image has several of them.
#define KW_ELEMENTWISE_OF(name, module, inputs, outputs, numbers) \
  namespace cpu {                                                 \
  KW_CPU_RANGE(name##_elements)                                   \
  }                                                               \
  static Elementwise name{"kw_" #name,                            \
                          numbers,                                \
                          KW_LIST_ inputs,                        \
                          KW_LIST_ outputs,                       \
                          &cpu::picked_##name##_elements,         \
                          module,                                 \
                          {{#name "_float32"}, {#name "_float16"}, {#name "_bfloat16"}}};
