/* SPDX-License-Identifier: MIT */
/* How a test calls a kernel that it registered with the stand-in for torch: values of a stack, and what is alive. */
#ifndef STANDIN_TORCH_CALLS_H
#define STANDIN_TORCH_CALLS_H

#include <stddef.h>
#include <stdint.h>

struct StandinTensor;
typedef void (*StandinBoxed)(uint64_t*, uint64_t, uint64_t);

#ifdef __cplusplus
extern "C" {
#endif

StandinBoxed standin_kernel(void);
uint64_t standin_string(const char* text);
uint64_t standin_list(size_t count, const int64_t* items);
uint64_t standin_optional(uint64_t value);
uint64_t standin_tensor(const struct StandinTensor* given);
int standin_alive(void); /* objects that were made and not freed yet */

#ifdef __cplusplus
}
#endif

#endif
