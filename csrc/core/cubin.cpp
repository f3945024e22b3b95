// SPDX-License-Identifier: MIT
#include "core/cubin.h"

#include <elf.h>
#include <limits.h>
#include <string.h>

#include "core/error.h"
#include "core/number.h"

namespace kw {
namespace {

constexpr int kMachineCuda = 190;  // EM_CUDA, which older elf.h lack

// A table of `count` entries at `offset` lies inside the file.
bool inside(uint64_t offset, uint64_t count, uint64_t entry, size_t size) {
  return offset <= size && count * entry <= size - offset;
}

// The architecture as NVIDIA writes it into e_flags. Its ELF ABI 7 (CUDA 12, GPUs before Blackwell) keeps the number in
// the lowest byte; ABI 8 (Blackwell in CUDA 12, everything in CUDA 13) in the two bytes above that. -1: another ABI.
int architecture(const Elf64_Ehdr& header) {
  switch (header.e_ident[EI_ABIVERSION]) {
    case 7:
      return static_cast<int>(header.e_flags & 0xff);
    case 8:
      return static_cast<int>(header.e_flags >> 8 & 0xffff);
    default:
      return -1;
  }
}

kw_status check_cubin(const Image& image, const char* path, const char* bytes, size_t size) {
  Elf64_Ehdr header;
  if (size < sizeof header || memcmp(bytes, ELFMAG, SELFMAG) != 0) {
    return fail(KW_ERROR_IMAGE_CORRUPT, "%s is not a cubin: it does not begin as an ELF file", path);
  }
  memcpy(&header, bytes, sizeof header);
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB ||
      header.e_machine != kMachineCuda) {
    return fail(KW_ERROR_IMAGE_CORRUPT, "%s is not a cubin: its ELF machine is %d, a cubin's is %d", path,
                header.e_machine, kMachineCuda);
  }
  if (!inside(header.e_shoff, header.e_shnum, header.e_shentsize, size) ||
      !inside(header.e_phoff, header.e_phnum, header.e_phentsize, size)) {
    return fail(KW_ERROR_IMAGE_CORRUPT, "%s is cut short: its tables reach beyond its %zu bytes; make it again", path,
                size);
  }
  const int found = architecture(header);
  if (found < 0) {
    return fail(KW_ERROR_IMAGE_CORRUPT,
                "%s has the cubin ABI %d, which this library does not know; build it with the toolkit this library was "
                "built with",
                path, header.e_ident[EI_ABIVERSION]);
  }
  const int wanted = file_capability(image);
  if (found != wanted) {
    return fail(KW_ERROR_IMAGE_CORRUPT,
                "%s holds code for capability %d.%d, but %s means %d.%d; put the right file there", path, found / 10,
                found % 10, image.file, wanted / 10, wanted % 10);
  }
  return KW_OK;
}

// The number in PTX's ".target …_90" line; 0 if there is none, or a letter behind it that ties it to one architecture.
int ptx_target(const char* text) {
  constexpr char kKey[] = "\n.target ";
  const char* line = strstr(text, kKey);
  if (line == nullptr) return 0;
  line += strlen(kKey);
  line += strcspn(line, "_\n,");
  if (*line != '_') return 0;
  const char* end = nullptr;
  long long number = 0;
  const bool is_one = read_number(line + 1, &end, &number) && number >= 0 && number <= INT_MAX;
  return is_one && (*end == '\n' || *end == ',') ? static_cast<int>(number) : 0;
}

}  // namespace

kw_status check_code(const Image& image, const char* path, const char* bytes, size_t size) {
  if (image.kind == KW_IMAGE_CUBIN) return check_cubin(image, path, bytes, size);
  const int found = ptx_target(bytes);  // the reader puts a NUL behind the bytes
  if (found == file_capability(image)) return KW_OK;
  return fail(KW_ERROR_IMAGE_CORRUPT, "%s is not PTX for %s: its .target line says %d", path, image.file, found);
}

}  // namespace kw
