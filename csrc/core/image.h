// SPDX-License-Identifier: MIT
// The images this library was built with, and which of them a device gets.
#pragma once

#include <kernelwright/base.h>

namespace kw {

enum ImageKind { KW_IMAGE_CUBIN, KW_IMAGE_PTX };

// One operator compiled for one code: a line of kw_images.inc.
struct Image {
  const char* op;
  const char* code;
  ImageKind kind;
  const char* runs_on;  // "8.0 8.6": capabilities, its own first; of PTX the lowest that compiles it
  uint32_t features;
  const char* file;      // the code whose file holds it: its own, or one whose image loads the same
  const char* made_for;  // the capability of that code, which the file's header names
  int64_t size;
  const char* sha256;
};

// A table of images; more than one exists only in tests.
struct Images {
  const Image* first;
  int count;
  const Image* begin() const { return first; }
  const Image* end() const { return first + count; }
};

Images built_images();

// The name by which the table knows the kernels of an operator: its own, or that of an image its family shares.
const char* image_of(const char* op);

// The image's own capability, or the lowest that compiles its PTX, as major * 10 + minor.
int native_capability(const Image& image);

// That of the code whose file holds it.
int file_capability(const Image& image);

// The file name's ending.
inline const char* suffix(const Image& image) { return image.kind == KW_IMAGE_CUBIN ? "cubin" : "ptx"; }

// The image of `op` for a device of `capability`: the device's own cubin with the most features, else another cubin
// that runs there, else the newest PTX. `forced` ("" for none) names a code to take instead, if that can run there at
// all.
kw_status choose_image(const Images& images, const char* op, int capability, const char* forced, const Image** chosen);

}  // namespace kw
