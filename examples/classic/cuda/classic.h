// SPDX-License-Identifier: MIT
#pragma once

#define CLASSIC_API extern "C" __attribute__((visibility("default")))

__device__ int next_number(int n);  // in counter.cu: linked as relocatable device code
