// SPDX-License-Identifier: MIT
#include "core/module.h"

#include <stdlib.h>

#include "core/fork.h"
#include "core/options.h"

namespace kw {
namespace {

kw_status load_module(const Driver& driver, Module* module, int ordinal) {
  const LoaderLock lock;
  DeviceState* device = nullptr;
  KW_TRY(device_state(driver, ordinal, &device));
  if (module->devices == nullptr) {
    auto* fresh = static_cast<Module::OnDevices*>(calloc(1, sizeof(Module::OnDevices)));
    if (fresh == nullptr) return fail(KW_ERROR_OUT_OF_MEMORY, "no memory for operator %s", module->op);
    __atomic_store_n(&module->devices, fresh, __ATOMIC_RELEASE);
  }
  if (module->devices->image[ordinal] != nullptr) return KW_OK;  // another thread was faster

  Options options;
  read_options(&options);
  const Image* image = nullptr;
  KW_TRY(choose_image(built_images(), module->op, device->capability, options.arch, &image));
  const RelaxedCapture relaxed(driver);
  KW_TRY(retain(driver, device));
  const Current current(driver, *device);
  KW_TRY(current.status());
  const LoadedImage* loaded = nullptr;
  KW_TRY(load_image(driver, *device, *image, &loaded));
  __atomic_store_n(&module->devices->image[ordinal], loaded, __ATOMIC_RELEASE);
  return KW_OK;
}

const LoadedImage* loaded_on(const Module& module, int ordinal) {
  if (ordinal < 0 || ordinal >= kMaxDevices) return nullptr;
  const Module::OnDevices* devices = __atomic_load_n(&module.devices, __ATOMIC_ACQUIRE);
  return devices == nullptr ? nullptr : __atomic_load_n(&devices->image[ordinal], __ATOMIC_ACQUIRE);
}

}  // namespace

kw_status module_context(Module& module, int ordinal, Context* context) {
  const Driver* table = nullptr;
  KW_TRY(driver(&table));
  const LoadedImage* loaded = loaded_on(module, ordinal);
  if (loaded == nullptr) {
    KW_TRY(load_module(*table, &module, ordinal));
    loaded = loaded_on(module, ordinal);
  }
  DeviceState* device = nullptr;
  KW_TRY(device_state(*table, ordinal, &device));
  *context = {device, loaded->image->features, &module};
  return KW_OK;
}

}  // namespace kw

kw_status kw_image_for(const char* op, int32_t capability, const char** image) {
  if (op == nullptr || image == nullptr) {
    return kw::fail(KW_ERROR_INVALID_ARGUMENT, "kw_image_for: %s is NULL", op == nullptr ? "op" : "image");
  }
  *image = nullptr;
  kw::Options options;
  kw::read_options(&options);
  const kw::Image* chosen = nullptr;
  KW_TRY(kw::choose_image(kw::built_images(), kw::image_of(op), capability, options.arch, &chosen));
  *image = chosen->code;
  return KW_OK;
}
