// SPDX-License-Identifier: MIT
// Kernel files: missing, cut, changed, exchanged, in a forced directory, behind links, in a tree that cannot be
// written.
#include "harness.h"

static constexpr const char* kCubin = "kernels/sm_89/probe.cubin";

CASE(missing) {
  use_standin("cuda12");
  Package package;
  package.run("rm %s/%s", package.root, kCubin);
  CHECK_STATUS(package.probe(0), KW_ERROR_IMAGE_MISSING, package.words(), kCubin, "reinstall");
  package.run("rm -r %s/kernels", package.root);
  CHECK_STATUS(package.probe(0), KW_ERROR_IMAGE_MISSING, package.words(), kCubin);
  CHECK_TOLD(package, "cuLibraryLoadData", 0);
}

CASE(truncated) {
  use_standin("cuda12");
  Package package;
  package.run("truncate -s -1 %s/%s", package.root, kCubin);
  CHECK_STATUS(package.probe(0), KW_ERROR_IMAGE_CORRUPT, package.words(), kCubin, "bytes", "reinstall");
  package.run("truncate -s 0 %s/%s", package.root, kCubin);
  CHECK_STATUS(package.probe(0), KW_ERROR_IMAGE_CORRUPT, package.words(), "has 0 bytes");
  CHECK_TOLD(package, "cuLibraryLoadData", 0);
}

// A descriptor that is left open takes a number away.
static int first_free_descriptor() {
  const int number = dup(STDERR_FILENO);
  close(number);
  return number;
}

CASE(flipped_bit) {
  use_standin("cuda12");
  Package package;
  package.words();
  const int before = first_free_descriptor();
  package.run("printf X | dd of=%s/%s bs=1 seek=70 conv=notrunc status=none", package.root, kCubin);
  CHECK_STATUS(package.probe(0), KW_ERROR_IMAGE_CORRUPT, package.words(), kCubin, "sha256", "reinstall");
  CHECK_TOLD(package, "cuLibraryLoadData", 0);
  package.run("cp %s/%s %s/%s", PROBE_DIR, kCubin, package.root, kCubin);
  CHECK(package.probe(0) == KW_OK, "a repaired file is still refused: %s", package.words());
  CHECK(first_free_descriptor() == before, "a kernel file was left open");
}

CASE(a_directory) {
  use_standin("cuda12");
  Package package;
  package.run("rm %s/%s && mkdir %s/%s", package.root, kCubin, package.root, kCubin);
  CHECK_STATUS(package.probe(0), KW_ERROR_IMAGE_CORRUPT, package.words(), "not a regular file");
}

CASE(unreadable) {
  use_standin("cuda12");
  Package package;
  package.words();
  package.run("chmod 755 %s && chmod 0 %s/%s", package.root, package.root, kCubin);
  const bool root = geteuid() == 0;  // reads files of any mode
  if (root && seteuid(65534) != 0) skip("root cannot become somebody else here");
  CHECK_STATUS(package.probe(0), KW_ERROR_SYSTEM, package.words(), kCubin, "Permission denied");
  if (root) CHECK(seteuid(0) == 0, "cannot become root again");
}

CASE(read_only_install) {
  use_standin("cuda12");
  Package package;
  package.run("cd %s && chmod -R a-w lib kernels && find lib kernels | sort > before", package.root);
  CHECK(package.probe(0) == KW_OK, "%s", package.words());
  package.run("cd %s && find lib kernels | sort | cmp - before", package.root);
}

// The wrong GPU's cubin where the right one should be: the driver would take it without a word.
CASE(forced_directory) {
  use_standin("cuda12");
  Package package;
  package.run("mkdir %s/mine && cp -R %s/kernels/* %s/mine", package.root, package.root, package.root);
  char mine[128];
  snprintf(mine, sizeof mine, "%s/mine", package.root);
  CHECK(package.option("kernels", mine) == KW_OK, "%s", package.words());
  package.run("cp %s/sm_80/probe.cubin %s/sm_89/probe.cubin", mine, mine);
  CHECK_STATUS(package.probe(0), KW_ERROR_IMAGE_CORRUPT, package.words(), "8.0", "8.9", "mine/sm_89/probe.cubin");
  package.run("echo text > %s/sm_89/probe.cubin", mine);
  CHECK_STATUS(package.probe(0), KW_ERROR_IMAGE_CORRUPT, package.words(), "not a cubin");
  package.run("head -c 100 %s/kernels/sm_89/probe.cubin > %s/sm_89/probe.cubin", package.root, mine);
  CHECK_STATUS(package.probe(0), KW_ERROR_IMAGE_CORRUPT, package.words(), "cut short");
  package.run("rm %s/sm_89/probe.cubin", mine);
  CHECK_STATUS(package.probe(0), KW_ERROR_IMAGE_MISSING, package.words(), "option \"kernels\"");
  CHECK_TOLD(package, "cuLibraryLoadData", 0);
  package.run("sed s/image=probe/image=MINE_/ %s/kernels/sm_89/probe.cubin > %s/sm_89/probe.cubin", package.root, mine);
  CHECK(package.probe(0) == KW_OK, "another hash is refused there: %s", package.words());
  CHECK_TOLD(package, "image=MINE_", 1);
}

CASE(relative_directory) {
  use_standin("cuda12");
  Package package;
  CHECK(chdir(package.root) == 0, "chdir");
  package.run("mv %s/kernels %s/moved", package.root, package.root);
  CHECK(package.option("kernels", "moved") == KW_OK, "%s", package.words());
  CHECK(chdir("/") == 0, "chdir");
  CHECK(package.probe(0) == KW_OK, "%s", package.words());
}

// lib/libkwprobe.so is a link to a package elsewhere: its kernels are found there.
CASE(linked_library) {
  use_standin("cuda12");
  Package package;
  package.run("cd %s && mkdir real && mv lib kernels real && mkdir lib && ln -s ../real/lib/libkwprobe.so lib",
              package.root);
  CHECK(package.probe(0) == KW_OK, "%s", package.words());
}

// Every file is a link into a store, as some package managers make it: the kernels beside the link are the ones.
CASE(link_farm) {
  use_standin("cuda12");
  Package package;
  package.run("cd %s && mkdir store && mv lib/libkwprobe.so store && ln -s ../store/libkwprobe.so lib", package.root);
  package.run("cd %s && mv %s store && ln -s ../../store/probe.cubin kernels/sm_89", package.root, kCubin);
  CHECK(package.probe(0) == KW_OK, "%s", package.words());
}

CASE(ptx_that_does_not_compile) {
  use_standin("cuda12");
  Package package("12.0");
  package.run("mkdir -p %s/mine/compute_90", package.root);
  package.run("printf '.version 8.2\\n.target sm_90\\n// standin=reject\\n' > %s/mine/compute_90/probe.ptx",
              package.root);
  char mine[128];
  snprintf(mine, sizeof mine, "%s/mine", package.root);
  CHECK(package.option("kernels", mine) == KW_OK, "%s", package.words());
  CHECK_STATUS(package.probe(0), KW_ERROR_CUDA, package.words(), "compute_90/probe.ptx", "218",
               "ptxas stand-in, line 7: syntax error", "stand-in 12.0");
}

RUN_CASES()
