/* SPDX-License-Identifier: MIT */
/* What environment variables ask of the stand-in for NVIDIA's driver (libcuda.c lists them). */
#ifndef STANDIN_SETTINGS_H
#define STANDIN_SETTINGS_H

#include <stdio.h>
#include <stdlib.h>

static const char* setting(const char* name, const char* otherwise) {
  const char* value = getenv(name);
  return value ? value : otherwise;
}

static int capability(int device) {
  const char* text = setting("KW_STANDIN_DEVICES", "8.9");
  for (int i = 0; *text; ++i) {
    int major = 0, minor = 0, used = 0;
    if (sscanf(text, "%d.%d%n", &major, &minor, &used) < 2) return 0;
    if (i == device) return major * 10 + minor;
    text += used;
    if (*text == ',') ++text;
  }
  return 0;
}

#endif
