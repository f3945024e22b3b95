// SPDX-License-Identifier: MIT
#include "core/file.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/cubin.h"
#include "core/error.h"
#include "core/sha256.h"

namespace kw {
namespace {

// "<directory of this library>/../kernels". By the name it was loaded under, so that a farm of symbolic links works;
// if there is no such directory, by the file that name leads to.
kw_status own_directory(char* directory, size_t size) {
  Dl_info info = {};
  if (dladdr(reinterpret_cast<const void*>(&kw_version), &info) == 0 || info.dli_fname == nullptr) {
    return fail(KW_ERROR_SYSTEM, "cannot find out where this library was loaded from, so not where its kernels lie");
  }
  char real[PATH_MAX];
  const char* candidates[] = {info.dli_fname, realpath(info.dli_fname, real)};
  for (const char* library : candidates) {
    if (library == nullptr) continue;
    const char* slash = strrchr(library, '/');
    const int length = slash == nullptr ? 1 : static_cast<int>(slash - library);
    const int written = snprintf(directory, size, "%.*s/../kernels", length, slash == nullptr ? "." : library);
    if (written < 0 || static_cast<size_t>(written) >= size) {
      return fail(KW_ERROR_SYSTEM, "the path of this library is too long: %s", library);
    }
    if (access(directory, F_OK) == 0) break;
  }
  return KW_OK;
}

kw_status read_all(int descriptor, KernelFile* file) {
  struct stat facts;
  if (fstat(descriptor, &facts) != 0 || !S_ISREG(facts.st_mode)) {
    return fail(KW_ERROR_IMAGE_CORRUPT, "%s is not a regular file", file->path);
  }
  file->size = static_cast<size_t>(facts.st_size);
  file->bytes = static_cast<char*>(malloc(file->size + 1));
  if (file->bytes == nullptr) {
    return fail(KW_ERROR_OUT_OF_MEMORY, "no memory for the %zu bytes of %s", file->size, file->path);
  }
  size_t done = 0;
  while (done < file->size) {
    const ssize_t got = read(descriptor, file->bytes + done, file->size - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail(KW_ERROR_SYSTEM, "reading %s failed: %s", file->path, strerror(errno));
    if (got == 0) return fail(KW_ERROR_IMAGE_CORRUPT, "%s shrank while it was read", file->path);
    done += static_cast<size_t>(got);
  }
  file->bytes[file->size] = '\0';
  return KW_OK;
}

kw_status check_hash(const Image& image, const KernelFile& file) {
  if (file.size != static_cast<size_t>(image.size)) {
    return fail(KW_ERROR_IMAGE_CORRUPT,
                "%s has %zu bytes, but this library was built with one of %lld: the file was cut or exchanged; "
                "reinstall kernelwright",
                file.path, file.size, static_cast<long long>(image.size));
  }
  char hex[65];
  sha256_hex(file.bytes, file.size, hex);
  if (strcmp(hex, image.sha256) == 0) return KW_OK;
  return fail(
      KW_ERROR_IMAGE_CORRUPT,
      "%s is not the file this library was built with: its sha256 is %s, it should be %s; reinstall kernelwright",
      file.path, hex, image.sha256);
}

kw_status cannot_open(const char* path, bool own) {
  const int error = errno;
  if (error != ENOENT && error != ENOTDIR) {
    return fail(KW_ERROR_SYSTEM, "the kernel file %s cannot be opened: %s", path, strerror(error));
  }
  return fail(KW_ERROR_IMAGE_MISSING, "the kernel file %s is not there; %s", path,
              own ? "the installation is incomplete: reinstall kernelwright, or set the option \"kernels\" to the "
                    "directory that holds it"
                  : "it is looked for there because the option \"kernels\" says so");
}

}  // namespace

KernelFile::~KernelFile() { free(bytes); }

kw_status read_kernel_file(const Image& image, const char* directory, KernelFile* file) {
  const bool own = directory[0] == '\0';
  char beside[4200];
  if (own) KW_TRY(own_directory(beside, sizeof beside));
  const int written = snprintf(file->path, sizeof file->path, "%s/%s/%s.%s", own ? beside : directory, image.file,
                               image.op, suffix(image));
  if (written < 0 || static_cast<size_t>(written) >= sizeof file->path) {
    return fail(KW_ERROR_SYSTEM, "the path of %s's kernel file under %s is too long", image.op,
                own ? beside : directory);
  }
  const int descriptor = open(file->path, O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return cannot_open(file->path, own);
  const kw_status status = read_all(descriptor, file);
  close(descriptor);
  KW_TRY(status);
  if (own) KW_TRY(check_hash(image, *file));
  return check_code(image, file->path, file->bytes, file->size);
}

}  // namespace kw
