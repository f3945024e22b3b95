// SPDX-License-Identifier: MIT
// Which image a device gets: a table of capabilities and answers, also for devices that nobody has heard of.
#include "core/image.h"

#include "../check.h"

using kw::Image;
using kw::KW_IMAGE_CUBIN;
using kw::KW_IMAGE_PTX;

// In an order that no rule may lean on.
static const Image kTable[] = {
    {"norm", "compute_80", KW_IMAGE_PTX, "8.0", 1, "compute_80", "8.0", 1, ""},
    {"norm", "sm_90", KW_IMAGE_CUBIN, "9.0", 3, "sm_90", "9.0", 1, ""},
    {"norm", "sm_90a", KW_IMAGE_CUBIN, "9.0", 7, "sm_90a", "9.0", 1, ""},
    {"norm", "sm_80", KW_IMAGE_CUBIN, "8.0 8.6 8.7 8.9", 1, "sm_80", "8.0", 1, ""},
    {"norm", "sm_86", KW_IMAGE_CUBIN, "8.6 8.9", 1, "sm_86", "8.6", 1, ""},
    {"norm", "sm_120", KW_IMAGE_CUBIN, "12.0 12.1", 3, "sm_120", "12.0", 1, ""},
    {"norm", "sm_103", KW_IMAGE_CUBIN, "10.3", 3, "sm_103", "10.3", 1, ""},
    {"norm", "compute_90", KW_IMAGE_PTX, "9.0", 3, "compute_90", "9.0", 1, ""},
    {"pair", "sm_121", KW_IMAGE_CUBIN, "12.1 12.0", 3, "sm_121", "12.1", 1, ""},
    {"pair", "sm_120", KW_IMAGE_CUBIN, "12.0 12.1", 1, "sm_120", "12.0", 1, ""},
    {"thin", "sm_87", KW_IMAGE_CUBIN, "8.7", 1, "sm_87", "8.7", 1, ""},
};
static const kw::Images kImages = {kTable, sizeof kTable / sizeof kTable[0]};

static const char* chosen(const char* op, int capability, const char* forced) {
  const Image* image = nullptr;
  const kw_status status = kw::choose_image(kImages, op, capability, forced, &image);
  if (status == KW_OK) return image->code;
  CHECK(image == nullptr, "a refusal still gave an image");
  return kw_status_name(status);
}

static void expect(const char* op, int capability, const char* forced, const char* expected) {
  const char* got = chosen(op, capability, forced);
  CHECK(strcmp(got, expected) == 0, "%s for %d, forced \"%s\": got %s, expected %s", op, capability, forced, got,
        expected);
}

CASE(by_device) {
  const struct {
    int capability;
    const char* code;
  } rows[] = {
      {80, "sm_80"},        // its own
      {86, "sm_86"},        // its own before an older one that runs there too
      {87, "sm_80"},        // another's that says so
      {89, "sm_86"},        // the newest of two that say so
      {90, "sm_90a"},       // of two of its own the one with more features
      {100, "compute_90"},  // PTX, the newest it can compile
      {103, "sm_103"},      //
      {121, "sm_120"},      //
      {130, "compute_90"},  // not heard of yet
      {88, "compute_80"},   // not in any list, though of the family: the plan is the table, not a guess
      {75, "KW_ERROR_NO_IMAGE"},
      {0, "KW_ERROR_NO_IMAGE"},
  };
  for (const auto& row : rows) expect("norm", row.capability, "", row.code);
  expect("pair", 120, "", "sm_120");  // its own, though a newer one runs there too
  expect("pair", 121, "", "sm_121");
  expect("thin", 87, "", "sm_87");
  expect("thin", 90, "", "KW_ERROR_NO_IMAGE");
}

CASE(refusal_words) {
  const Image* image = nullptr;
  CHECK_STATUS(kw::choose_image(kImages, "norm", 75, "", &image), KW_ERROR_NO_IMAGE, kw_last_error(), "norm", "7.5",
               "sm_80 (8.0 8.6 8.7 8.9)", "compute_90 (9.0 and newer)", "sm_120 (12.0 12.1)");
  CHECK_STATUS(kw::choose_image(kImages, "gemm", 90, "", &image), KW_ERROR_NO_IMAGE, kw_last_error(), "gemm",
               "norm, pair, thin");
  CHECK_STATUS(kw::choose_image({kTable, 0}, "norm", 90, "", &image), KW_ERROR_NO_IMAGE, kw_last_error(),
               "none at all");
}

CASE(forced) {
  const struct {
    int capability;
    const char *forced, *result;
  } rows[] = {
      {90, "sm_90", "sm_90"},
      {90, "compute_90", "compute_90"},
      {90, "compute_80", "compute_80"},
      {120, "compute_80", "compute_80"},
      {80, "compute_90", "KW_ERROR_UNSUPPORTED"},
      {89, "sm_80", "sm_80"},
      {87, "sm_86", "sm_86"},  // same family, an older minor: a spot check
      {88, "sm_80", "sm_80"},
      {80, "sm_86", "KW_ERROR_UNSUPPORTED"},  // a newer minor
      {90, "sm_80", "KW_ERROR_UNSUPPORTED"},  // another family
      {91, "sm_90", "sm_90"},
      {91, "sm_90a", "KW_ERROR_UNSUPPORTED"},  // of one architecture alone
      {100, "sm_90a", "KW_ERROR_UNSUPPORTED"},
      {90, "sm_70", "KW_ERROR_NO_IMAGE"},
      {90, "sm_9", "KW_ERROR_NO_IMAGE"},
  };
  for (const auto& row : rows) expect("norm", row.capability, row.forced, row.result);
  const Image* image = nullptr;
  CHECK_STATUS(kw::choose_image(kImages, "norm", 90, "sm_80", &image), KW_ERROR_UNSUPPORTED, kw_last_error(), "sm_80",
               "9.0", "8.0 8.6 8.7 8.9");
  CHECK_STATUS(kw::choose_image(kImages, "norm", 90, "sm_70", &image), KW_ERROR_NO_IMAGE, kw_last_error(), "sm_70",
               "sm_90a");
}

RUN_CASES()
