// SPDX-License-Identifier: MIT
// What the C++ layer asks of the CUDA driver, found by name when a GPU is first used: memory, streams, graphs.
#pragma once

#include <dlfcn.h>
#include <kernelwright/kernelwright.h>

#include <stdexcept>
#include <string>

namespace kernelwright {

// With the status that the C ABI has for it.
class Error : public std::runtime_error {
 public:
  Error(kw_status status, const std::string& words) : std::runtime_error(words), status_(status) {}
  kw_status status() const { return status_; }

 private:
  kw_status status_;
};

inline void check(kw_status status) {
  if (status != KW_OK) throw Error(status, kw_last_error());
}

// The functions of libcuda.so.1, declared by what they are called with.
class Driver {
 public:
  using Address = unsigned long long;

  static const Driver& get() {
    static const Driver driver;
    return driver;
  }

  int (*device)(int*, int);
  int (*retain)(void**, int);
  int (*push)(void*);
  int (*pop)(void**);
  int (*allocate)(Address*, size_t);
  int (*release)(Address);
  int (*from_host)(Address, const void*, size_t);
  int (*to_host)(void*, Address, size_t);
  int (*from_peer)(Address, void*, Address, void*, size_t, void*);
  int (*create_stream)(void**, unsigned);
  int (*destroy_stream)(void*);
  int (*wait)(void*);
  int (*begin_capture)(void*, int);
  int (*end_capture)(void*, void**);
  int (*instantiate)(void**, void*, unsigned long long);
  int (*launch)(void*, void*);
  int (*destroy_graph)(void*);
  int (*destroy_instance)(void*);
  int (*name)(char*, int, int);
  int (*attribute)(int*, int, int);

  static void require(int code, const char* what) {
    if (code != 0) throw Error(KW_ERROR_CUDA, std::string(what) + ": the driver returned " + std::to_string(code));
  }

 private:
  Driver() {
    void* const library = dlopen("libcuda.so.1", RTLD_NOW);
    if (library == nullptr) throw Error(KW_ERROR_NO_DRIVER, std::string("libcuda.so.1: ") + dlerror());
    int (*init)(unsigned) = nullptr;
    find(library, "cuInit", &init);
    find(library, "cuDeviceGet", &device);
    find(library, "cuDevicePrimaryCtxRetain", &retain);
    find(library, "cuCtxPushCurrent_v2", &push);
    find(library, "cuCtxPopCurrent_v2", &pop);
    find(library, "cuMemAlloc_v2", &allocate);
    find(library, "cuMemFree_v2", &release);
    find(library, "cuMemcpyHtoD_v2", &from_host);
    find(library, "cuMemcpyDtoH_v2", &to_host);
    find(library, "cuMemcpyPeerAsync", &from_peer);
    find(library, "cuStreamCreate", &create_stream);
    find(library, "cuStreamDestroy_v2", &destroy_stream);
    find(library, "cuStreamSynchronize", &wait);
    find(library, "cuStreamBeginCapture_v2", &begin_capture);
    find(library, "cuStreamEndCapture", &end_capture);
    find(library, "cuGraphInstantiateWithFlags", &instantiate);
    find(library, "cuGraphLaunch", &launch);
    find(library, "cuGraphDestroy", &destroy_graph);
    find(library, "cuGraphExecDestroy", &destroy_instance);
    find(library, "cuDeviceGetName", &name);
    find(library, "cuDeviceGetAttribute", &attribute);
    require(init(0), "cuInit");
  }

  template <class Function>
  static void find(void* library, const char* name, Function* to) {
    void* const found = dlsym(library, name);
    if (found == nullptr) throw Error(KW_ERROR_DRIVER_TOO_OLD, std::string("libcuda.so.1 has no ") + name);
    *to = reinterpret_cast<Function>(found);
  }
};

// A GPU's primary context, the one that kernelwright's functions use, is the thread's own for a scope; nothing on the
// CPU.
class Context {
 public:
  explicit Context(int ordinal) : ordinal_(ordinal) {
    if (ordinal == KW_CPU) return;
    int number = 0;
    Driver::require(Driver::get().device(&number, ordinal), "cuDeviceGet");
    Driver::require(Driver::get().retain(&context_, number), "cuDevicePrimaryCtxRetain");
  }

  int ordinal() const { return ordinal_; }
  bool cpu() const { return ordinal_ == KW_CPU; }
  void* handle() const { return context_; }

  class Scope {
   public:
    explicit Scope(const Context& context) : pushed_(!context.cpu()) {
      if (pushed_) Driver::require(Driver::get().push(context.context_), "cuCtxPushCurrent");
    }
    ~Scope() {
      void* before = nullptr;
      if (pushed_) Driver::get().pop(&before);
    }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    bool pushed_;
  };

 private:
  int ordinal_;
  void* context_ = nullptr;  // kept for the process, as kernelwright itself keeps it
};

}  // namespace kernelwright
