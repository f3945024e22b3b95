// SPDX-License-Identifier: MIT
// Boxes of tensors of 2 to 5 dimensions between global and shared memory (TMA), one wrapper an instruction. The driver
// has described the tensor and the box's size in `map`; `at` are the coordinates of the box's first element, the
// fastest dimension's first. What lies outside the tensor is zero in shared memory and is not stored. Stores end as
// those of bulk.cuh do.
#pragma once

#include "device/types.cuh"

namespace kw {

#ifdef KW_HAS_TMA

// To shared memory, on 128 bytes; the box's bytes are counted at the barrier.
__device__ __forceinline__ void tma_load(u32 to, const void* map, const u32 (&at)[2], u32 barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];" ::"r"(
          to),
      "l"(map), "r"(barrier), "r"(at[0]), "r"(at[1])
      : "memory");
}

// The same to each block of the cluster whose bit is set, at the same place; counted at each one's own barrier.
__device__ __forceinline__ void tma_load_multicast(u32 to, const void* map, const u32 (&at)[2], u32 barrier,
                                                   u16 blocks) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%4, "
      "%5}], [%2], %3;" ::"r"(to),
      "l"(map), "r"(barrier), "h"(blocks), "r"(at[0]), "r"(at[1])
      : "memory");
}

// From shared memory; in this thread's group of stores.
__device__ __forceinline__ void tma_store(const void* map, const u32 (&at)[2], u32 from) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%2, %3}], [%1];" ::"l"(map), "r"(from),
               "r"(at[0]), "r"(at[1])
               : "memory");
}

// The same, added to what is there, in the tensor's own type.
__device__ __forceinline__ void tma_reduce_add(const void* map, const u32 (&at)[2], u32 from) {
  asm volatile("cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group [%0, {%2, %3}], [%1];" ::"l"(map),
               "r"(from), "r"(at[0]), "r"(at[1])
               : "memory");
}

__device__ __forceinline__ void tma_load(u32 to, const void* map, const u32 (&at)[3], u32 barrier) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5}], [%2];" ::
          "r"(to),
      "l"(map), "r"(barrier), "r"(at[0]), "r"(at[1]), "r"(at[2])
      : "memory");
}

__device__ __forceinline__ void tma_load_multicast(u32 to, const void* map, const u32 (&at)[3], u32 barrier,
                                                   u16 blocks) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%4, "
      "%5, %6}], [%2], %3;" ::"r"(to),
      "l"(map), "r"(barrier), "h"(blocks), "r"(at[0]), "r"(at[1]), "r"(at[2])
      : "memory");
}

__device__ __forceinline__ void tma_store(const void* map, const u32 (&at)[3], u32 from) {
  asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%0, {%2, %3, %4}], [%1];" ::"l"(map), "r"(from),
               "r"(at[0]), "r"(at[1]), "r"(at[2])
               : "memory");
}

__device__ __forceinline__ void tma_reduce_add(const void* map, const u32 (&at)[3], u32 from) {
  asm volatile(
      "cp.reduce.async.bulk.tensor.3d.global.shared::cta.add.tile.bulk_group [%0, {%2, %3, %4}], [%1];" ::"l"(map),
      "r"(from), "r"(at[0]), "r"(at[1]), "r"(at[2])
      : "memory");
}

__device__ __forceinline__ void tma_load(u32 to, const void* map, const u32 (&at)[4], u32 barrier) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6}], "
      "[%2];" ::"r"(to),
      "l"(map), "r"(barrier), "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3])
      : "memory");
}

__device__ __forceinline__ void tma_load_multicast(u32 to, const void* map, const u32 (&at)[4], u32 barrier,
                                                   u16 blocks) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%4, "
      "%5, %6, %7}], [%2], %3;" ::"r"(to),
      "l"(map), "r"(barrier), "h"(blocks), "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3])
      : "memory");
}

__device__ __forceinline__ void tma_store(const void* map, const u32 (&at)[4], u32 from) {
  asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.bulk_group [%0, {%2, %3, %4, %5}], [%1];" ::"l"(map),
               "r"(from), "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3])
               : "memory");
}

__device__ __forceinline__ void tma_reduce_add(const void* map, const u32 (&at)[4], u32 from) {
  asm volatile(
      "cp.reduce.async.bulk.tensor.4d.global.shared::cta.add.tile.bulk_group [%0, {%2, %3, %4, %5}], [%1];" ::"l"(map),
      "r"(from), "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3])
      : "memory");
}

__device__ __forceinline__ void tma_load(u32 to, const void* map, const u32 (&at)[5], u32 barrier) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6, %7}], "
      "[%2];" ::"r"(to),
      "l"(map), "r"(barrier), "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3]), "r"(at[4])
      : "memory");
}

__device__ __forceinline__ void tma_load_multicast(u32 to, const void* map, const u32 (&at)[5], u32 barrier,
                                                   u16 blocks) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%4, "
      "%5, %6, %7, %8}], [%2], %3;" ::"r"(to),
      "l"(map), "r"(barrier), "h"(blocks), "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3]), "r"(at[4])
      : "memory");
}

__device__ __forceinline__ void tma_store(const void* map, const u32 (&at)[5], u32 from) {
  asm volatile("cp.async.bulk.tensor.5d.global.shared::cta.bulk_group [%0, {%2, %3, %4, %5, %6}], [%1];" ::"l"(map),
               "r"(from), "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3]), "r"(at[4])
               : "memory");
}

__device__ __forceinline__ void tma_reduce_add(const void* map, const u32 (&at)[5], u32 from) {
  asm volatile(
      "cp.reduce.async.bulk.tensor.5d.global.shared::cta.add.tile.bulk_group [%0, {%2, %3, %4, %5, %6}], [%1];" ::"l"(
          map),
      "r"(from), "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3]), "r"(at[4])
      : "memory");
}

// Has L2 bring a box.
__device__ __forceinline__ void tma_prefetch(const void* map, const u32 (&at)[2]) {
  asm volatile("cp.async.bulk.prefetch.tensor.2d.L2.global [%0, {%1, %2}];" ::"l"(map), "r"(at[0]), "r"(at[1])
               : "memory");
}

// The kernel's parameter is on its way to the cache of descriptors.
__device__ __forceinline__ void prefetch_tensor_map(const void* map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

#endif

}  // namespace kw
