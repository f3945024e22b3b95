// SPDX-License-Identifier: MIT
// Kernel files: where they lie, and how they are read and checked.
#pragma once

#include <stddef.h>

#include "core/image.h"

namespace kw {

struct KernelFile {
  char path[4400];
  char* bytes = nullptr;  // with a NUL behind them; PTX is text
  size_t size = 0;

  KernelFile() = default;
  ~KernelFile();
  KernelFile(const KernelFile&) = delete;
  KernelFile& operator=(const KernelFile&) = delete;
};

// Reads the file of `image` from `directory` ("": the one beside this library, whose files must have the compiled-in
// hashes) and checks it.
kw_status read_kernel_file(const Image& image, const char* directory, KernelFile* file);

}  // namespace kw
