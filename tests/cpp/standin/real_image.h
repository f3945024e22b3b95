// SPDX-License-Identifier: MIT
// What a stand-in driver has to know of a real cubin or PTX file: its architecture, and whether a kernel is in it.
#pragma once

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct real_image {
  char* bytes;  // NULL: not a real one
  size_t size;
  int arch, is_ptx;
};

// A cubin says its architecture in e_flags, whose form depends on the ABI; PTX in a line of text.
static inline int read_real(struct real_image* image, const char* code) {
  if (memcmp(code, "\177ELF", 4) == 0) {
    uint32_t flags;
    uint64_t table;
    uint16_t machine, entry, count;
    memcpy(&machine, code + 18, 2);
    memcpy(&table, code + 40, 8);
    memcpy(&flags, code + 48, 4);
    memcpy(&entry, code + 58, 2);
    memcpy(&count, code + 60, 2);
    if (machine != 190) return 0;
    image->size = table + (size_t)entry * count;
    image->arch = (int)(code[8] == 8 ? flags >> 8 & 0xff : flags & 0xff);
  } else {
    const char* target = strstr(code, "\n.target sm_");
    if (!target) return 0;
    image->size = strlen(code);
    image->arch = atoi(target + strlen("\n.target sm_"));
    image->is_ptx = 1;
  }
  image->bytes = (char*)malloc(image->size + 1);  // whoever loads may free it
  memcpy(image->bytes, code, image->size);
  image->bytes[image->size] = '\0';
  return 1;
}

// As real drivers do it: another GPU's cubin loads, and then has no kernels.
static inline int has_kernel(const struct real_image* image, int capability, const char* name) {
  const int family = image->arch / 10 == capability / 10 && image->arch % 10 <= capability % 10;
  if (!(image->is_ptx ? image->arch <= capability : family)) return 0;
  const size_t length = strlen(name) + !image->is_ptx;  // in a cubin names end with a zero
  for (size_t at = 0; at + length <= image->size; ++at)
    if (image->bytes[at] == *name && memcmp(image->bytes + at, name, length) == 0) return 1;
  return 0;
}
