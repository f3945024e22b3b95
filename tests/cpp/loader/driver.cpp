// SPDX-License-Identifier: MIT
// Finding a driver: none, a broken file, one that is no driver, too old, incomplete, without GPUs.
#include "core/driver_table.h"

#include "harness.h"

CASE(no_libcuda) {
  if (dlopen("libcuda.so.1", RTLD_LAZY) != nullptr) skip("this machine has a driver, which cannot be hidden here");
  Package package;
  int count = 7, version = 7;
  CHECK_STATUS(package.count(&count), KW_ERROR_NO_DRIVER, package.words(), "libcuda.so.1", "install the driver");
  CHECK(count == 0, "%d devices without a driver", count);
  CHECK_STATUS(package.version(&version), KW_ERROR_NO_DRIVER, package.words(), "libcuda.so.1");
  CHECK_STATUS(package.probe(0), KW_ERROR_NO_DRIVER, package.words(), "libcuda.so.1");
}

// LD_LIBRARY_PATH leads to an empty libcuda.so.1 (the build sets it for this case).
CASE(empty_libcuda) {
  Package package;
  CHECK_STATUS(package.probe(0), KW_ERROR_NO_DRIVER, package.words(), "libcuda.so.1", "file too short");
}

CASE(not_a_driver) {
  use_standin("none");
  Package package;
  CHECK_STATUS(package.probe(0), KW_ERROR_NO_DRIVER, package.words(), "cuGetProcAddress_v2", "none/libcuda.so.1");
}

CASE(cuda_11) {
  use_standin("cuda11");
  setenv("KW_STANDIN_VERSION", "11080", 1);
  Package package;
  CHECK_STATUS(package.probe(0), KW_ERROR_DRIVER_TOO_OLD, package.words(), "11.8", "12.2", "535.54.03",
               "cuda11/libcuda.so.1");
  int version = 0;
  CHECK(package.version(&version) == KW_ERROR_DRIVER_TOO_OLD && version == 11080, "version %d", version);
}

CASE(older_than_the_build) {
  use_standin("cuda12");
  setenv("KW_STANDIN_VERSION", "12010", 1);
  Package package;
  int version = 0;
  CHECK_STATUS(package.version(&version), KW_ERROR_DRIVER_TOO_OLD, package.words(), "12.1", "12.2", "535.54.03");
  CHECK(version == 12010, "version %d", version);
  CHECK_STATUS(package.probe(0), KW_ERROR_DRIVER_TOO_OLD, package.words(), "cuda12/libcuda.so.1");
  CHECK_TOLD(package, "cuInit", 0);
}

// Each function in turn; what is newer than the oldest driver the build accepts is not needed.
CASE(lacks_a_function) {
  use_standin("cuda12");
  setenv("KW_STANDIN_VERSION", "13000", 1);
  Package package;
  int version = 0, optional = 0;
  const struct {
    const char* name;
    int version;
  } functions[] = {
#define KW_NAME(name, version, parameters) {#name, version},
      KW_DRIVER_FUNCTIONS(KW_NAME)
#undef KW_NAME
  };
  for (const auto& function : functions) {
    setenv("KW_STANDIN_LACKS", function.name, 1);
    if (function.version > 12020) {
      ++optional;
      continue;
    }
    CHECK_STATUS(package.version(&version), KW_ERROR_NO_DRIVER, package.words(), function.name, "libcuda.so.1");
    if (strcmp(function.name, "cuDriverGetVersion") != 0) {
      CHECK(strstr(package.words(), "13.0") != nullptr, "no version in: %s", package.words());
    }
  }
  CHECK(optional == 1, "%d functions are optional", optional);
  setenv("KW_STANDIN_LACKS", "cuKernelGetParamInfo", 1);
  CHECK(package.probe(0) == KW_OK, "%s", package.words());
}

CASE(toolkit_stub) {
  use_standin("cuda12");
  setenv("KW_STANDIN_FAILS", "cuDriverGetVersion:34", 1);
  Package package;
  CHECK_STATUS(package.probe(0), KW_ERROR_NO_DRIVER, package.words(), "stub", "libcuda.so.1");
}

CASE(version_does_not_start_cuda) {
  use_standin("cuda12");
  Package package;
  int version = 0;
  CHECK(package.version(&version) == KW_OK && version == 12020, "version %d: %s", version, package.words());
  CHECK_TOLD(package, "cuInit", 0);
}

CASE(no_gpu) {
  use_standin("cuda12");
  Package package("");
  int count = 7;
  CHECK(package.count(&count) == KW_OK && count == 0, "%d: %s", count, package.words());
  CHECK_STATUS(package.probe(0), KW_ERROR_NO_DEVICE, package.words(), "no GPU", "CUDA_VISIBLE_DEVICES");
}

CASE(ordinals) {
  use_standin("cuda12");
  Package package("8.9,9.0");
  int count = 0, capability = 0;
  CHECK(package.count(&count) == KW_OK && count == 2, "%d: %s", count, package.words());
  auto get = package.get<decltype(&kw_device_capability)>("kw_device_capability");
  CHECK(get(1, &capability) == KW_OK && capability == 90, "%d: %s", capability, package.words());
  for (int ordinal : {2, 64, 1000000, -1, -2, INT32_MIN}) {
    CHECK_STATUS(get(ordinal, &capability), KW_ERROR_NO_DEVICE, package.words(), "shows 2");
    CHECK_STATUS(package.probe(ordinal), KW_ERROR_NO_DEVICE, package.words(), "shows 2");
  }
  CHECK_TOLD(package, "cuDevicePrimaryCtxRetain", 0);
}

CASE(more_devices_than_it_handles) {
  use_standin("cuda12");
  char devices[4 * 65 + 1] = "";
  for (int i = 0; i < 65; ++i) memcpy(devices + 4 * i, "9.0,", 5);
  Package package(devices);
  int capability = 0;
  auto get = package.get<decltype(&kw_device_capability)>("kw_device_capability");
  CHECK(get(63, &capability) == KW_OK && capability == 90, "%d: %s", capability, package.words());
  CHECK(package.probe(63) == KW_OK, "%s", package.words());
  CHECK_STATUS(get(64, &capability), KW_ERROR_UNSUPPORTED, package.words(), "device 64", "beyond the 64");
  CHECK_STATUS(package.probe(64), KW_ERROR_UNSUPPORTED, package.words(), "device 64", "beyond the 64");
}

CASE(init_fails) {
  use_standin("cuda12");
  setenv("KW_STANDIN_FAILS", "cuInit:999", 1);
  Package package;
  CHECK_STATUS(package.probe(0), KW_ERROR_CUDA, package.words(), "starting CUDA", "cuInit", "999");
  unsetenv("KW_STANDIN_FAILS");
  CHECK(package.probe(0) == KW_OK, "a failure stuck: %s", package.words());
}

RUN_CASES()
