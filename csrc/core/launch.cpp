// SPDX-License-Identifier: MIT
#include "core/launch.h"

#include <stdlib.h>

#include "core/module.h"

namespace kw {

struct Kernel::OnDevices {
  struct {
    CUfunction function;
    uint32_t shared;   // dynamic shared memory it may use
    uint32_t cluster;  // blocks a cluster it may use
  } at[kMaxDevices];
};

namespace {

constexpr uint32_t kClusterByDefault = 8;  // what every GPU with clusters must support

// Finds the function on first use, and asks the driver for what a launch needs beyond the default.
kw_status prepare(const Driver& driver, const Context& context, Kernel* kernel, const Launch& how, size_t size,
                  CUfunction* prepared) {
  const LoaderLock lock;
  const DeviceState& device = static_cast<const DeviceState&>(*context.device);
  if (kernel->devices == nullptr) {
    auto* fresh = static_cast<Kernel::OnDevices*>(calloc(1, sizeof(Kernel::OnDevices)));
    if (fresh == nullptr) return fail(KW_ERROR_OUT_OF_MEMORY, "no memory for kernel %s", kernel->name);
    __atomic_store_n(&kernel->devices, fresh, __ATOMIC_RELEASE);
  }
  auto& slot = kernel->devices->at[device.ordinal];
  CUfunction function = slot.function;
  const LoadedImage& image = *context.module->devices->image[device.ordinal];
  const RelaxedCapture relaxed(driver);
  if (function == nullptr) {
    KW_TRY(find_function(driver, image, device, kernel->name, size, &function));
    // By default a kernel may use 48 KB, but its static shared memory is in them, and nobody has said how much that is.
    slot.shared = 0;
    slot.cluster = kClusterByDefault;
    __atomic_store_n(&slot.function, function, __ATOMIC_RELEASE);
  }
  if (how.shared > slot.shared) {
    KW_CUDA(driver, cuFuncSetAttribute,
            (function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, static_cast<int>(how.shared)),
            "allowing kernel %s (%s) %u bytes of dynamic shared memory on CUDA device %d (%s), which has %d a block",
            kernel->name, image.image->code, how.shared, device.ordinal, device.name, device.shared_per_block);
    __atomic_store_n(&slot.shared, how.shared, __ATOMIC_RELEASE);
  }
  if (how.cluster > slot.cluster) {
    KW_CUDA(driver, cuFuncSetAttribute, (function, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1),
            "allowing kernel %s (%s) clusters of %u blocks on CUDA device %d (%s)", kernel->name, image.image->code,
            how.cluster, device.ordinal, device.name);
    __atomic_store_n(&slot.cluster, how.cluster, __ATOMIC_RELEASE);
  }
  *prepared = function;
  return KW_OK;
}

// The function, if nothing is left to prepare.
CUfunction ready(const Kernel& kernel, int ordinal, const Launch& how) {
  const Kernel::OnDevices* devices = __atomic_load_n(&kernel.devices, __ATOMIC_ACQUIRE);
  if (devices == nullptr) return nullptr;
  const auto& slot = devices->at[ordinal];
  CUfunction function = __atomic_load_n(&slot.function, __ATOMIC_ACQUIRE);
  if (function == nullptr || how.shared > __atomic_load_n(&slot.shared, __ATOMIC_ACQUIRE) ||
      how.cluster > __atomic_load_n(&slot.cluster, __ATOMIC_ACQUIRE)) {
    return nullptr;
  }
  return function;
}

unsigned int fill_attributes(const Context& context, const Launch& how, CUlaunchAttribute attributes[2]) {
  unsigned int count = 0;
  if (how.cluster > 1) {
    attributes[count].id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    attributes[count++].value.clusterDim = {how.cluster, 1, 1};
  }
  if (how.overlap && (context.features & KW_FEATURE_PDL) != 0) {
    attributes[count].id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    attributes[count++].value.programmaticStreamSerializationAllowed = 1;
  }
  return count;
}

}  // namespace

kw_status launch(const Context& context, Kernel& kernel, const Launch& how, void* stream, const void* params,
                 size_t size) {
  const Driver* table = nullptr;
  KW_TRY(driver(&table));
  const DeviceState& device = static_cast<const DeviceState&>(*context.device);
  const char* code = context.module->devices->image[device.ordinal]->image->code;
  if (how.cluster > 1 && (context.features & KW_FEATURE_CLUSTER) == 0) {
    return fail(KW_ERROR_UNSUPPORTED, "kernel %s asks for clusters of %u blocks, but %s has no clusters", kernel.name,
                how.cluster, code);
  }
  const Current current(*table, device);
  KW_TRY(current.status());
  CUfunction function = ready(kernel, device.ordinal, how);
  if (function == nullptr) KW_TRY(prepare(*table, context, &kernel, how, size, &function));
  CUlaunchAttribute attributes[2] = {};
  const unsigned int count = fill_attributes(context, how, attributes);
  const CUlaunchConfig config = {how.grid,   1,    1, how.block, 1, 1, how.shared, static_cast<CUstream>(stream),
                                 attributes, count};
  void* parameters[] = {const_cast<void*>(params)};  // the driver only reads it
  KW_CUDA(*table, cuLaunchKernelEx, (&config, function, parameters, nullptr),
          "launching %s (%s) on CUDA device %d (%s) with %u blocks of %u threads, %u bytes of shared memory, clusters "
          "of %u",
          kernel.name, code, device.ordinal, device.name, how.grid, how.block, how.shared, how.cluster);
  return KW_OK;
}

}  // namespace kw
