// SPDX-License-Identifier: MIT
// What the loader's tests share: the stand-in driver, a copy of the probe package that a test may damage, and what the
// driver was told to do. A case runs in a process of its own, since a process finds its driver once.
#pragma once

#include <dlfcn.h>
#include <stdarg.h>
#include <stdint.h>
#include <unistd.h>

#include "../check.h"
#include "../probe/probe.h"

// One of the stand-ins, before the library looks for a driver: the name is then taken.
inline void* use_standin(const char* form) {
  char path[4096];
  snprintf(path, sizeof path, "%s/%s/libcuda.so.1", STANDIN_DIR, form);
  void* handle = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
  if (handle == nullptr) {
    fprintf(stderr, "%s\n", dlerror());
    exit(1);
  }
  return handle;
}

template <class Function>
Function symbol(void* handle, const char* name) {
  auto function = reinterpret_cast<Function>(dlsym(handle, name));
  if (function == nullptr) {
    fprintf(stderr, "%s\n", dlerror());
    exit(1);
  }
  return function;
}

// A copy of the package in a directory of its own, and the library loaded from it.
struct Package {
  char root[64] = "/tmp/kernelwright-test-XXXXXX";
  char record[80];
  void* handle = nullptr;

  explicit Package(const char* devices = "8.9") {
    if (mkdtemp(root) == nullptr) exit(1);
    snprintf(record, sizeof record, "%s/record", root);
    setenv("KW_STANDIN_DEVICES", devices, 1);
    setenv("KW_STANDIN_RECORD", record, 1);
    run("cp -R %s/lib %s/kernels %s", PROBE_DIR, PROBE_DIR, root);
  }
  ~Package() { run("chmod -R u+w %s && rm -rf %s", root, root); }
  Package(const Package&) = delete;
  Package& operator=(const Package&) = delete;

  [[gnu::format(printf, 2, 3)]] void run(const char* format, ...) {
    char command[16384];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(command, sizeof command, format, arguments);
    va_end(arguments);
    CHECK(system(command) == 0, "failed: %s", command);
  }

  // The library's functions; loaded on first use, so that a test can prepare the files.
  template <class Function>
  Function get(const char* name) {
    char path[128];
    snprintf(path, sizeof path, "%s/lib/libkwprobe.so", root);
    if (handle == nullptr) handle = dlopen(path, RTLD_NOW);
    if (handle == nullptr) {
      fprintf(stderr, "%s\n", dlerror());
      exit(1);
    }
    return symbol<Function>(handle, name);
  }
  kw_status probe(int device, ProbeCall call = {PROBE_PLAIN, 4, 128, 0, 1, 0, nullptr, 7, 9}) {
    return get<decltype(&kw_probe)>("kw_probe")(device, &call);
  }
  kw_status other(int device) {
    const ProbeCall call = {PROBE_PLAIN, 1, 32, 0, 1, 0, nullptr, 0, 0};
    return get<decltype(&kw_probe_other)>("kw_probe_other")(device, &call);
  }
  kw_status option(const char* name, const char* value) {
    return get<decltype(&kw_set_option)>("kw_set_option")(name, value);
  }
  kw_status count(int* number) { return get<decltype(&kw_device_count)>("kw_device_count")(number); }
  kw_status version(int* number) { return get<decltype(&kw_driver_version)>("kw_driver_version")(number); }
  const char* words() { return get<decltype(&kw_last_error)>("kw_last_error")(); }

  // How many lines of the record hold this.
  int told(const char* what) {
    FILE* file = fopen(record, "r");
    if (file == nullptr) return 0;
    char line[2048];
    int found = 0;
    while (fgets(line, sizeof line, file) != nullptr) found += strstr(line, what) != nullptr;
    fclose(file);
    return found;
  }
};

// The driver was told this `times` times.
#define CHECK_TOLD(package, what, times) \
  CHECK((package).told(what) == (times), "\"%s\" stands %d times in the record", what, (package).told(what))
