// SPDX-License-Identifier: MIT
#include "core/image.h"

#include <string.h>

#include "core/error.h"
#include "core/text.h"

#define KW_IMAGE(op, code, kind, runs_on, features, file, made_for, size, sha256) \
  {op, code, kw::kind, runs_on, features, file, made_for, size, sha256},
namespace {
constexpr kw::Image kBuilt[] = {
#include "kw_images.inc"
    {},  // a build without operators still has an array
};
}  // namespace
#undef KW_IMAGE

namespace kw {
namespace {

// An operator without an image of its own, and the image of its family that holds its kernels.
struct Shared {
  const char* op;
  const char* image;
};
constexpr Shared kShared[] = {
#define KW_SHARED_IMAGE(op, image) {op, image},
#include "kw_images.inc"
#undef KW_SHARED_IMAGE
    {},
};

// Reads "8.6" as 86 and moves past it and the space behind it; 0 at the end.
int next_capability(const char** text) {
  int major = 0, minor = 0;
  const char* p = *text;
  for (; *p >= '0' && *p <= '9'; ++p) major = major * 10 + (*p - '0');
  if (*p == '.') ++p;
  for (; *p >= '0' && *p <= '9'; ++p) minor = minor * 10 + (*p - '0');
  while (*p == ' ') ++p;
  *text = p;
  return major * 10 + minor;
}

bool lists(const Image& image, int capability) {
  const char* text = image.runs_on;
  while (*text != '\0') {
    if (next_capability(&text) == capability) return true;
  }
  return false;
}

// A code with a letter behind its number uses what only that one architecture has.
bool architecture_specific(const Image& image) {
  const size_t length = strlen(image.code);
  const char last = length > 0 ? image.code[length - 1] : '0';
  return last < '0' || last > '9';
}

// Whether the device can run it at all, beyond what the table promises: NVIDIA's rule is the same major family and
// no newer minor. Only an image that was asked for by name is held to this wider rule.
bool can_run(const Image& image, int capability) {
  const int native = native_capability(image);
  if (image.kind == KW_IMAGE_PTX) return native <= capability;
  if (lists(image, capability)) return true;
  return !architecture_specific(image) && native / 10 == capability / 10 && native <= capability;
}

// How well an image suits a device; higher is better, 0 is not at all. Ties go to the first of the table.
int64_t rank(const Image& image, int capability) {
  const int native = native_capability(image);
  const int features = __builtin_popcount(image.features);
  if (image.kind == KW_IMAGE_PTX) return native <= capability ? 1 + native : 0;
  if (!lists(image, capability)) return 0;
  const int64_t own = native == capability ? 2000000 : 1000000;
  return own + native * 100 + features;
}

// "sm_… (8.0 8.6), compute_… (9.0 and newer)"
template <size_t N>
void list_images(const Images& images, const char* op, Text<N>* text) {
  for (const Image& image : images) {
    if (strcmp(image.op, op) != 0) continue;
    text->add("%s%s (%s%s)", text->used > 0 ? ", " : "", image.code, image.runs_on,
              image.kind == KW_IMAGE_PTX ? " and newer" : "");
  }
}

template <size_t N>
void list_ops(const Images& images, Text<N>* text) {
  const char* last = "";
  for (const Image& image : images) {
    if (strcmp(image.op, last) != 0) text->add("%s%s", text->used > 0 ? ", " : "", image.op);
    last = image.op;
  }
}

kw_status choose_forced(const Images& images, const char* op, int capability, const char* forced,
                        const Image** chosen) {
  Text<1024> have;
  list_images(images, op, &have);
  for (const Image& image : images) {
    if (strcmp(image.op, op) != 0 || strcmp(image.code, forced) != 0) continue;
    if (can_run(image, capability)) {
      *chosen = &image;
      return KW_OK;
    }
    return fail(KW_ERROR_UNSUPPORTED,
                "option \"arch\" forces %s for operator %s, but that runs on %s%s and the device is of capability "
                "%d.%d; this build has %s",
                forced, op, image.runs_on, image.kind == KW_IMAGE_PTX ? " and newer" : " (and newer minors of it)",
                capability / 10, capability % 10, have.data);
  }
  return fail(KW_ERROR_NO_IMAGE,
              "option \"arch\" forces %s, but operator %s of this build has no such image; it has %s", forced, op,
              have.data);
}

}  // namespace

const char* image_of(const char* op) {
  for (const Shared& shared : kShared) {
    if (shared.op != nullptr && strcmp(shared.op, op) == 0) return shared.image;
  }
  return op;
}

Images built_images() { return {kBuilt, static_cast<int>(sizeof kBuilt / sizeof kBuilt[0]) - 1}; }

int native_capability(const Image& image) {
  const char* text = image.runs_on;
  return next_capability(&text);
}

int file_capability(const Image& image) {
  const char* text = image.made_for;
  return next_capability(&text);
}

kw_status choose_image(const Images& images, const char* op, int capability, const char* forced, const Image** chosen) {
  const Image* best = nullptr;
  bool known = false;
  for (const Image& image : images) {
    if (strcmp(image.op, op) != 0) continue;
    known = true;
    const int64_t value = rank(image, capability);
    if (value > 0 && (best == nullptr || value > rank(*best, capability))) best = &image;
  }
  Text<1024> have;
  if (!known) {
    list_ops(images, &have);
    return fail(KW_ERROR_NO_IMAGE, "this build has no operator %s for GPUs; it has %s", op,
                have.used > 0 ? have.data : "none at all");
  }
  if (forced[0] != '\0') return choose_forced(images, op, capability, forced, chosen);
  if (best == nullptr) {
    list_images(images, op, &have);
    return fail(
        KW_ERROR_NO_IMAGE,
        "operator %s has no kernel for a device of capability %d.%d: this build has %s; use a build whose archs "
        "include it",
        op, capability / 10, capability % 10, have.data);
  }
  *chosen = best;
  return KW_OK;
}

}  // namespace kw
