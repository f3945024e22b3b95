// SPDX-License-Identifier: MIT
// Asks an installed library what it would do on this board, and does it: board LIBRARY [ARCH].
// On a real board it needs the driver; under tests a stand-in (../standin) answers as one. It prints a line a fact.
#include <dlfcn.h>
#include <kernelwright/rms_norm.h>
#include <stdio.h>
#include <stdlib.h>

static void* library;

static void* function(const char* name) {
  void* found = dlsym(library, name);
  if (!found) {
    fprintf(stderr, "%s\n", dlerror());
    exit(2);
  }
  return found;
}
#define CALL(name) ((__typeof__(&name))function(#name))

static void status(const char* what, kw_status code) {
  printf("%s: %s\n", what, CALL(kw_status_name)(code));
  if (code != KW_OK) printf("words: %s\n", CALL(kw_last_error)());
}

int main(int count, char** words) {
  if (count < 2 || !(library = dlopen(words[1], RTLD_NOW))) {
    fprintf(stderr, "%s\n", count < 2 ? "usage: board LIBRARY [ARCH]" : dlerror());
    return 2;
  }
  printf("cpu: %s\n", CALL(kw_cpu_isa)());
  if (count > 2) status("forced", CALL(kw_set_option)("arch", words[2]));

  int32_t devices = 0, capability = 0;
  status("devices", CALL(kw_device_count)(&devices));
  const char* image = NULL;
  if (devices > 0 && CALL(kw_device_capability)(0, &capability) == KW_OK) {
    printf("capability: %d\n", capability);
    status("image", CALL(kw_image_for)("rms_norm", capability, &image));
    printf("chosen: %s\n", image ? image : "none");
  }

  // On the CPU: rows of 1 … 8 times 2 have the norm x / sqrt(25.5 * 4), whatever the processor.
  float x[8], y[8] = {0};
  for (int i = 0; i < 8; ++i) x[i] = 2.0F * (float)(i + 1);
  status("on the CPU",
         CALL(kw_rms_norm)(KW_CPU, NULL, y, 8, NULL, 0, x, 8, NULL, 0, NULL, NULL, 1, 8, KW_FLOAT32, KW_FLOAT32, 0.0));
  for (int i = 0; i < 8; ++i) printf("y: %.9g\n", (double)y[i]);

  // On the GPU: a stand-in computes nothing, so the memory need not be a GPU's; on a real board nothing is launched.
  if (getenv("KW_STANDIN_RECORD")) {
    status("on the GPU",
           CALL(kw_rms_norm)(0, NULL, y, 8, NULL, 0, x, 8, NULL, 0, NULL, NULL, 1, 8, KW_FLOAT32, KW_FLOAT32, 1e-6));
  }
  return 0;
}
