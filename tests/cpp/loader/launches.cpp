// SPDX-License-Identifier: MIT
// What the driver is told: which image, how often, in which context, with which configuration; and its refusals' words.
#include "harness.h"

CASE(image_by_device) {
  use_standin("cuda12");
  Package package("8.6,8.9,9.0,12.0,7.5");
  for (int device : {0, 1, 2, 3}) CHECK(package.probe(device) == KW_OK, "%s", package.words());
  for (const char* image : {"cubin image=probe sm_80", "cubin image=probe sm_89", "cubin image=probe sm_90a",
                            "ptx image=probe compute_90"}) {
    CHECK_TOLD(package, image, 1);
  }
  CHECK_TOLD(package, "cuLibraryLoadData", 4);
  CHECK_STATUS(package.probe(4), KW_ERROR_NO_IMAGE, package.words(), "probe", "7.5", "sm_80", "compute_90");
  int processors = 0;
  uint32_t features = 0;
  auto context = package.get<decltype(&kw_probe_context)>("kw_probe_context");
  CHECK(context(2, &processors, &features) == KW_OK && processors == 102 && features == 15, "%d %u", processors,
        features);
  CHECK(context(0, &processors, &features) == KW_OK && processors == 100 && features == 0, "%d %u", processors,
        features);
}

// A build that left an image out for an equal one: the GPU's own code, from the other's file, also by name.
CASE(equal_image) {
  use_standin("cuda12");
  Package package("8.6");
  const char* image = nullptr;
  auto image_for = package.get<decltype(&kw_image_for)>("kw_image_for");
  CHECK(image_for("other", 86, &image) == KW_OK && strcmp(image, "sm_86") == 0, "%s", package.words());
  CHECK(package.option("arch", "sm_86") == KW_OK, "%s", package.words());
  CHECK(package.other(0) == KW_OK, "%s", package.words());
  CHECK_TOLD(package, "cubin image=other sm_80", 1);
}

CASE(configuration) {
  use_standin("cuda12");
  setenv("KW_STANDIN_VERSION", "13000", 1);
  Package package("9.0");
  void* stream = reinterpret_cast<void*>(0x1234);
  CHECK(package.probe(0, {PROBE_PLAIN, 1000, 256, 0, 1, 0, stream, 0x1122334455667788, 9}) == KW_OK, "%s",
        package.words());
  CHECK_TOLD(package,
             "probe_plain device=0 grid=1000 block=256 shared=0 cluster=1 overlap=0 stream=0x1234 "
             "params=88776655443322110900000000000000",
             1);
  CHECK(package.probe(0, {PROBE_OTHER, 16, 32, 1024, 4, 1, nullptr, 0, 0}) == KW_OK, "%s", package.words());
  CHECK_TOLD(package, "probe_other device=0 grid=16 block=32 shared=1024 cluster=4 overlap=1 stream=(nil)", 1);
  CHECK_TOLD(package, "cuFuncSetAttribute", 1);
  CHECK_TOLD(package, "cuFuncSetAttribute probe_other 8=1024", 1);
}

CASE(features_it_lacks) {
  use_standin("cuda12");
  Package package("8.9");
  CHECK_STATUS(package.probe(0, {PROBE_PLAIN, 8, 32, 0, 2, 0, nullptr, 0, 0}), KW_ERROR_UNSUPPORTED, package.words(),
               "probe_plain", "sm_89", "cluster");
  CHECK(package.probe(0, {PROBE_PLAIN, 8, 32, 0, 1, 1, nullptr, 0, 0}) == KW_OK, "%s", package.words());
  CHECK_TOLD(package, "overlap=0", 1);
}

// Opting in is asked for once, and again only for more; also for less than 48 KB, in which static memory is.
CASE(opting_in) {
  use_standin("cuda12");
  Package package("9.0,9.0");
  for (uint32_t shared : {0u, 49152u, 49152u, 50000u, 50000u, 49999u, 60000u, 60000u}) {
    CHECK(package.probe(0, {PROBE_PLAIN, 16, 32, shared, 1, 0, nullptr, 0, 0}) == KW_OK, "%s", package.words());
  }
  CHECK_TOLD(package, "cuFuncSetAttribute probe_plain 8=", 3);
  CHECK(package.probe(1, {PROBE_PLAIN, 16, 32, 60000, 1, 0, nullptr, 0, 0}) == KW_OK, "%s", package.words());
  CHECK_TOLD(package, "cuFuncSetAttribute probe_plain 8=60000 device=1", 1);
  for (int i = 0; i < 3; ++i) {
    CHECK(package.probe(0, {PROBE_PLAIN, 16, 32, 0, 16, 0, nullptr, 0, 0}) == KW_OK, "%s", package.words());
  }
  CHECK_TOLD(package, "cuFuncSetAttribute probe_plain 14=1", 1);
  CHECK_STATUS(package.probe(0, {PROBE_OTHER, 16, 32, 300000, 1, 0, nullptr, 0, 0}), KW_ERROR_CUDA, package.words(),
               "probe_other", "300000", "cuFuncSetAttribute", "232448");
}

CASE(context_of_the_caller) {
  void* cuda = use_standin("cuda12");
  auto current = symbol<int (*)()>(cuda, "standin_current");
  Package package("8.9,9.0");
  CHECK(package.probe(1) == KW_OK, "%s", package.words());
  CHECK(current() == -1, "the thread had no context and now has device %d's", current());
  symbol<void (*)(int)>(cuda, "standin_make_current")(0);
  CHECK(package.probe(1) == KW_OK && package.probe(0) == KW_OK, "%s", package.words());
  CHECK(current() == 0, "the thread's device 0 became %d", current());
  CHECK_STATUS(package.probe(1, {PROBE_PLAIN, 0, 1, 0, 1, 0, nullptr, 0, 0}), KW_ERROR_CUDA, package.words(),
               "0 blocks");
  CHECK(current() == 0, "after a failure the thread's device 0 became %d", current());
}

// The thread is recording a stream: loading happens all the same, and the mode is as before.
CASE(first_use_in_capture) {
  void* cuda = use_standin("cuda12");
  setenv("KW_STANDIN_CAPTURING", "1", 1);
  Package package("9.0");
  CHECK(package.probe(0) == KW_OK, "%s", package.words());
  // Of an image that is loaded: another kernel, and more shared memory for one that was used.
  CHECK(package.probe(0, {PROBE_OTHER, 4, 128, 0, 1, 0, nullptr, 7, 9}) == KW_OK, "%s", package.words());
  CHECK(package.probe(0, {PROBE_PLAIN, 4, 128, 60 << 10, 1, 0, nullptr, 7, 9}) == KW_OK, "%s", package.words());
  CHECK(symbol<int (*)()>(cuda, "standin_capture_mode")() == 0, "the capture mode was left changed");
}

CASE(devices_share_an_image) {
  use_standin("cuda12");
  Package package("9.0,9.0,8.9,9.0");
  for (int device : {3, 0, 1, 2, 0, 3}) CHECK(package.probe(device) == KW_OK, "%s", package.words());
  CHECK(package.other(2) == KW_OK, "%s", package.words());
  CHECK_TOLD(package, "cuLibraryLoadData", 3);
  CHECK_TOLD(package, "cuKernelGetFunction probe_plain", 5);
  CHECK_TOLD(package, "cuLaunchKernelEx probe_plain device=3", 2);
  CHECK_TOLD(package, "cuDevicePrimaryCtxRetain", 4);
}

CASE(forced_arch) {
  use_standin("cuda12");
  Package package("9.0,8.9");
  CHECK(package.option("arch", "sm_80") == KW_OK, "%s", package.words());
  CHECK_STATUS(package.probe(0), KW_ERROR_UNSUPPORTED, package.words(), "sm_80", "9.0");
  CHECK(package.probe(1) == KW_OK, "%s", package.words());
  CHECK_TOLD(package, "image=probe sm_80", 1);
  CHECK(package.option("arch", "compute_90") == KW_OK, "%s", package.words());
  CHECK(package.probe(0) == KW_OK, "%s", package.words());
  CHECK_TOLD(package, "ptx image=probe compute_90", 1);
  CHECK_STATUS(package.other(0), KW_ERROR_NO_IMAGE, package.words(), "other", "compute_90", "sm_80");

  const char* image = nullptr;
  auto image_for = package.get<decltype(&kw_image_for)>("kw_image_for");
  CHECK(image_for("probe", 121, &image) == KW_OK && strcmp(image, "compute_90") == 0, "%s", package.words());
  CHECK(image_for("probe", 89, &image) == KW_ERROR_UNSUPPORTED && image == nullptr, "%s", package.words());
  CHECK(package.option("arch", "") == KW_OK, "%s", package.words());
  CHECK(image_for("probe", 89, &image) == KW_OK && strcmp(image, "sm_89") == 0, "%s", package.words());
}

CASE(refused_launch) {
  use_standin("cuda12");
  setenv("KW_STANDIN_FAILS", "cuLaunchKernelEx:719", 1);
  Package package("9.0");
  CHECK_STATUS(package.probe(0), KW_ERROR_CUDA, package.words(), "launching probe_plain (sm_90a) on CUDA device 0",
               "stand-in 9.0", "4 blocks of 128 threads", "cuLaunchKernelEx returned 719", "CUDA_ERROR_LAUNCH_FAILED",
               "unspecified launch failure");
  setenv("KW_STANDIN_FAILS", "cuLaunchKernelEx:2", 1);
  CHECK_STATUS(package.probe(0), KW_ERROR_OUT_OF_MEMORY, package.words(), "CUDA_ERROR_OUT_OF_MEMORY", "no words");
  unsetenv("KW_STANDIN_FAILS");
  CHECK(package.probe(0) == KW_OK, "%s", package.words());
}

// Each driver call on the way to a first launch refuses in turn; nothing of it may stick.
CASE(refusals_on_first_use) {
  use_standin("cuda12");
  Package package("9.0");
  for (const char* name :
       {"cuDeviceGetCount", "cuDeviceGet", "cuDeviceGetName", "cuDeviceGetAttribute", "cuDevicePrimaryCtxRetain",
        "cuCtxPushCurrent", "cuLibraryLoadData", "cuLibraryGetKernel", "cuKernelGetFunction"}) {
    char fails[64];
    snprintf(fails, sizeof fails, "%s:999", name);
    setenv("KW_STANDIN_FAILS", fails, 1);
    CHECK_STATUS(package.probe(0), KW_ERROR_CUDA, package.words(), name, "999", "device");
  }
  unsetenv("KW_STANDIN_FAILS");
  CHECK(package.probe(0) == KW_OK, "%s", package.words());
  CHECK_TOLD(package, "cuLibraryLoadData", 1);
}

CASE(kernel_of_other_sources) {
  use_standin("cuda12");
  setenv("KW_STANDIN_VERSION", "12040", 1);
  Package package("9.0");
  CHECK_STATUS(package.probe(0, {PROBE_ABSENT, 1, 1, 0, 1, 0, nullptr, 0, 0}), KW_ERROR_IMAGE_CORRUPT, package.words(),
               "probe_absent", "sm_90a/probe.cubin");
  CHECK_STATUS(package.probe(0, {PROBE_NARROW, 1, 1, 0, 1, 0, nullptr, 0, 0}), KW_ERROR_IMAGE_CORRUPT, package.words(),
               "probe_narrow", "8 bytes", "16");
}

RUN_CASES()
