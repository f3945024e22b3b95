// SPDX-License-Identifier: MIT
// What is read from a cubin's header. The e_flags are those of real cubins, of NVRTC 12.2 and 12.9 and nvcc 13.0.
#include "core/cubin.h"

#include <elf.h>

#include "../check.h"

static Elf64_Ehdr header_of(int abi, uint32_t flags) {
  Elf64_Ehdr header = {};
  memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_ident[EI_ABIVERSION] = static_cast<unsigned char>(abi);
  header.e_machine = 190;
  header.e_flags = flags;
  header.e_shoff = sizeof header;
  header.e_shentsize = 64;
  header.e_shnum = 1;
  header.e_phoff = sizeof header + 64;
  header.e_phentsize = 56;
  header.e_phnum = 1;
  return header;
}

static constexpr size_t kSize = sizeof(Elf64_Ehdr) + 64 + 56;

static kw_status check(const Elf64_Ehdr& header, const char* made_for, size_t size = kSize) {
  char file[kSize] = {};
  memcpy(file, &header, sizeof header);
  const kw::Image image = {"op", "code", kw::KW_IMAGE_CUBIN, "8.9", 0, "file", made_for, 0, ""};
  return kw::check_code(image, "the file", file, size);
}

CASE(architectures) {
  const struct {
    int abi;
    uint32_t flags;
    const char* capability;
  } rows[] = {
      {7, 0x460546, "7.0"},   {7, 0x4b054b, "7.5"},   {7, 0x500550, "8.0"},   {7, 0x570557, "8.7"},
      {7, 0x5a055a, "9.0"},   {7, 0x5a0d5a, "9.0"},   {8, 0x6004b04, "7.5"},  {8, 0x6005004, "8.0"},
      {8, 0x6005a04, "9.0"},  {8, 0x6006402, "10.0"}, {8, 0x600640a, "10.0"}, {8, 0x6006702, "10.3"},
      {8, 0x6006e02, "11.0"}, {8, 0x6007802, "12.0"}, {8, 0x6007902, "12.1"},
  };
  for (const auto& row : rows) {
    const Elf64_Ehdr header = header_of(row.abi, row.flags);
    CHECK(check(header, row.capability) == KW_OK, "%#x: %s", row.flags, kw_last_error());
    CHECK(check(header, "5.0") == KW_ERROR_IMAGE_CORRUPT, "%#x taken for 5.0", row.flags);
  }
  CHECK_STATUS(check(header_of(7, 0x500550), "9.0"), KW_ERROR_IMAGE_CORRUPT, kw_last_error(), "8.0", "file means 9.0",
               "the file");
}

CASE(damage) {
  const Elf64_Ehdr good = header_of(7, 0x500550);
  for (size_t size = 0; size < kSize; ++size) {
    CHECK(check(good, "8.0", size) == KW_ERROR_IMAGE_CORRUPT, "accepted %zu of %zu bytes", size, kSize);
  }
  Elf64_Ehdr bad = good;
  bad.e_machine = EM_X86_64;
  CHECK_STATUS(check(bad, "8.0"), KW_ERROR_IMAGE_CORRUPT, kw_last_error(), "machine is 62");
  bad = good;
  bad.e_ident[EI_ABIVERSION] = 9;
  CHECK_STATUS(check(bad, "8.0"), KW_ERROR_IMAGE_CORRUPT, kw_last_error(), "ABI 9");
  bad = good;
  bad.e_shoff = UINT64_MAX - 8;
  CHECK(check(bad, "8.0") == KW_ERROR_IMAGE_CORRUPT, "a table beyond the end");
  bad = good;
  bad.e_ident[0] = 0;
  CHECK_STATUS(check(bad, "8.0"), KW_ERROR_IMAGE_CORRUPT, kw_last_error(), "not a cubin");
}

CASE(ptx) {
  const kw::Image image = {"op", "code", kw::KW_IMAGE_PTX, "9.0", 0, "code", "9.0", 0, ""};
  const struct {
    const char* text;
    kw_status status;
  } rows[] = {
      {"//\n.version 8.2\n.target sm_90\n.address_size 64\n", KW_OK},
      {"//\n.version 8.2\n.target sm_90, debug\n", KW_OK},
      {"//\n.version 8.2\n.target sm_90a\n", KW_ERROR_IMAGE_CORRUPT},
      {"//\n.version 8.2\n.target sm_80\n", KW_ERROR_IMAGE_CORRUPT},
      {"//\n.version 8.2\n", KW_ERROR_IMAGE_CORRUPT},
      {"", KW_ERROR_IMAGE_CORRUPT},
  };
  for (const auto& row : rows) {
    const kw_status got = kw::check_code(image, "the file", row.text, strlen(row.text));
    CHECK(got == row.status, "%s: got %d", row.text, got);
  }
}

RUN_CASES()
