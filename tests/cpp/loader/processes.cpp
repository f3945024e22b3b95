// SPDX-License-Identifier: MIT
// Threads that all come first, and fork() before and after CUDA was used.
#include <pthread.h>
#include <sys/wait.h>

#include "harness.h"

static constexpr int kThreads = 8;
static Package* shared_package;
static pthread_barrier_t together;

static void* first_use(void* device) {
  pthread_barrier_wait(&together);
  for (int i = 0; i < 50; ++i) {
    const uint32_t shared = i % 2 == 0 ? 0 : 60000;
    const ProbeCall call = {i % 3 == 0 ? PROBE_PLAIN : PROBE_OTHER, 4, 32, shared, 1, 0, nullptr, 1, 2};
    const kw_status status = shared_package->probe(static_cast<int>(reinterpret_cast<intptr_t>(device)), call);
    CHECK(status == KW_OK, "%d: %s", status, shared_package->words());
  }
  return nullptr;
}

CASE(load_once_from_threads) {
  use_standin("cuda12");
  Package package("9.0,9.0");
  package.words();  // loads the library itself
  shared_package = &package;
  pthread_barrier_init(&together, nullptr, kThreads);
  pthread_t threads[kThreads];
  for (intptr_t i = 0; i < kThreads; ++i)
    pthread_create(&threads[i], nullptr, first_use, reinterpret_cast<void*>(i % 2));
  for (pthread_t thread : threads) pthread_join(thread, nullptr);
  CHECK_TOLD(package, "cuInit", 1);
  CHECK_TOLD(package, "cuLibraryLoadData", 1);
  CHECK_TOLD(package, "cuDevicePrimaryCtxRetain", 2);
  CHECK_TOLD(package, "cuKernelGetFunction", 4);
  CHECK_TOLD(package, "cuFuncSetAttribute", 4);
  CHECK_TOLD(package, "cuLaunchKernelEx", kThreads * 50);
}

// Runs `body` in a forked child; its failures become ours.
static void in_child(void (*body)(Package& package), Package& package) {
  const pid_t child = fork();
  if (child == 0) {
    body(package);
    _exit(failures > 0 ? 1 : 0);
  }
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0,
        "the child ended with %#x", status);
}

static void child_may_not(Package& package) {
  int count = 7, capability = 0;
  for (int i = 0; i < 2; ++i) {
    CHECK_STATUS(package.probe(0), KW_ERROR_FORKED, package.words(), "fork", "spawn", "CPU");
    CHECK_STATUS(package.count(&count), KW_ERROR_FORKED, package.words(), "fork");
    CHECK(count == 0, "%d devices", count);
  }
  auto get = package.get<decltype(&kw_device_capability)>("kw_device_capability");
  CHECK(get(0, &capability) == KW_ERROR_FORKED, "%s", package.words());
  CHECK(package.option("arch", "sm_80") == KW_OK, "%s", package.words());
  const char* image = nullptr;
  CHECK(package.get<decltype(&kw_image_for)>("kw_image_for")("probe", 89, &image) == KW_OK, "%s", package.words());
  in_child([](Package& again) { CHECK(again.probe(0) == KW_ERROR_FORKED, "a grandchild"); }, package);
}

CASE(fork_after_use) {
  use_standin("cuda12");
  Package package;
  CHECK(package.probe(0) == KW_OK, "%s", package.words());
  in_child(child_may_not, package);
  CHECK_TOLD(package, "in a process without CUDA", 0);
  CHECK(package.probe(0) == KW_OK, "the parent: %s", package.words());
  CHECK_TOLD(package, "cuLaunchKernelEx", 2);
}

CASE(fork_before_use) {
  use_standin("cuda12");
  Package package;
  int version = 0;
  CHECK(package.version(&version) == KW_OK, "%s", package.words());  // does not start CUDA
  in_child([](Package& p) { CHECK(p.probe(0) == KW_OK, "%s", p.words()); }, package);
  CHECK(package.probe(0) == KW_OK, "%s", package.words());
  CHECK_TOLD(package, "cuInit", 2);
}

// CUDA did not start, so there is nothing that a child could break.
CASE(fork_without_a_gpu) {
  use_standin("cuda12");
  Package package("");
  auto none = [](Package& p) {
    int count = 7;
    CHECK(p.count(&count) == KW_OK && count == 0, "%d: %s", count, p.words());
  };
  none(package);
  in_child(none, package);
}

// Another library of the parent used CUDA; ours only comes to it in the child.
CASE(fork_after_someone_elses_use) {
  void* cuda = use_standin("cuda12");
  Package package;
  package.words();
  int (*init)(unsigned) = nullptr;
  int result = 0;
  symbol<int (*)(const char*, void**, int, uint64_t, int*)>(cuda, "cuGetProcAddress_v2")(
      "cuInit", reinterpret_cast<void**>(&init), 2000, 1, &result);
  CHECK(init != nullptr && init(0) == 0, "the stand-in does not start");
  in_child([](Package& p) { CHECK_STATUS(p.probe(0), KW_ERROR_FORKED, p.words(), "fork", "spawn"); }, package);
  CHECK(package.probe(0) == KW_OK, "%s", package.words());
}

static void* load_slowly(void*) {
  shared_package->probe(0);
  return nullptr;
}

// fork() while another thread holds the loader's lock, before or after CUDA was started: the child must not wait for a
// thread that it does not have.
static void fork_during(const char* call, void (*in_the_child)(Package& package)) {
  Package package;
  package.words();
  shared_package = &package;
  pthread_t thread;
  pthread_create(&thread, nullptr, load_slowly, nullptr);
  for (int i = 0; i < 100000 && package.told(call) == 0; ++i) usleep(100);
  unsetenv("KW_STANDIN_SLOW");
  in_child(in_the_child, package);
  pthread_join(thread, nullptr);
  CHECK(package.probe(0) == KW_OK, "%s", package.words());
}

CASE(fork_while_loading) {
  use_standin("cuda12");
  fork_during("cuDevicePrimaryCtxRetain", [](Package& p) {
    alarm(60);
    CHECK_STATUS(p.probe(0), KW_ERROR_FORKED, p.words(), "fork");
  });
}

CASE(fork_while_looking_for_a_driver) {
  use_standin("cuda12");
  setenv("KW_STANDIN_SLOW", "1", 1);
  fork_during("cuDriverGetVersion", [](Package& p) {
    alarm(60);
    CHECK(p.probe(0) == KW_OK, "%s", p.words());
  });
}

RUN_CASES()
