// SPDX-License-Identifier: MIT
#include <kernelwright/base.h>

#include "kw_images.inc"

const char* kw_version(void) { return KW_BUILD_VERSION; }

int32_t kw_abi(void) { return 1; }

const char* kw_status_name(kw_status status) {
  switch (status) {
#define KW_CASE(name) \
  case name:          \
    return #name;
    KW_CASE(KW_OK)
    KW_CASE(KW_ERROR_INVALID_ARGUMENT)
    KW_CASE(KW_ERROR_UNSUPPORTED)
    KW_CASE(KW_ERROR_NO_DRIVER)
    KW_CASE(KW_ERROR_DRIVER_TOO_OLD)
    KW_CASE(KW_ERROR_NO_DEVICE)
    KW_CASE(KW_ERROR_NO_IMAGE)
    KW_CASE(KW_ERROR_IMAGE_MISSING)
    KW_CASE(KW_ERROR_IMAGE_CORRUPT)
    KW_CASE(KW_ERROR_CUDA)
    KW_CASE(KW_ERROR_FORKED)
    KW_CASE(KW_ERROR_OUT_OF_MEMORY)
    KW_CASE(KW_ERROR_SYSTEM)
#undef KW_CASE
    default:
      return "unknown status";
  }
}
