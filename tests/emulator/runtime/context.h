// SPDX-License-Identifier: MIT
// From one stack to another: saves what a function call must keep, and goes on where the other one stopped.
#pragma once

#include <stddef.h>
#include <stdint.h>

extern "C" void emulator_switch(void** save, void* other);

#if defined(__x86_64__)
__asm__(
    ".text\n"
    ".type emulator_switch, @function\n"
    "emulator_switch:\n"
    "  pushq %rbp\n  pushq %rbx\n  pushq %r12\n  pushq %r13\n  pushq %r14\n  pushq %r15\n"
    "  movq %rsp, (%rdi)\n"
    "  movq %rsi, %rsp\n"
    "  popq %r15\n  popq %r14\n  popq %r13\n  popq %r12\n  popq %rbx\n  popq %rbp\n"
    "  ret\n");
constexpr int kSaved = 6, kReturn = 6, kFrame = 8;
#elif defined(__aarch64__)
__asm__(
    ".text\n"
    ".type emulator_switch, %function\n"
    "emulator_switch:\n"
    "  sub sp, sp, #160\n"
    "  stp x19, x20, [sp, #0]\n  stp x21, x22, [sp, #16]\n  stp x23, x24, [sp, #32]\n  stp x25, x26, [sp, #48]\n"
    "  stp x27, x28, [sp, #64]\n  stp x29, x30, [sp, #80]\n  stp d8, d9, [sp, #96]\n  stp d10, d11, [sp, #112]\n"
    "  stp d12, d13, [sp, #128]\n  stp d14, d15, [sp, #144]\n"
    "  mov x2, sp\n  str x2, [x0]\n  mov sp, x1\n"
    "  ldp x19, x20, [sp, #0]\n  ldp x21, x22, [sp, #16]\n  ldp x23, x24, [sp, #32]\n  ldp x25, x26, [sp, #48]\n"
    "  ldp x27, x28, [sp, #64]\n  ldp x29, x30, [sp, #80]\n  ldp d8, d9, [sp, #96]\n  ldp d10, d11, [sp, #112]\n"
    "  ldp d12, d13, [sp, #128]\n  ldp d14, d15, [sp, #144]\n"
    "  add sp, sp, #160\n"
    "  ret\n");
constexpr int kReturn = 11, kFrame = 20;
#else
#error "the emulator knows the stacks of x86-64 and aarch64"
#endif

// A stack that begins with this function, which must not return.
inline void* new_stack(unsigned char* end, void (*begin)()) {
  auto* frame = reinterpret_cast<void**>(end) - kFrame;
  for (int i = 0; i < kFrame; ++i) frame[i] = nullptr;
  frame[kReturn] = reinterpret_cast<void*>(begin);
  return frame;
}
