// SPDX-License-Identifier: MIT
// Messages: one a thread, cut off rather than overflowing; names of codes; options that are refused.
#include <limits.h>
#include <pthread.h>
#include <unistd.h>

#include "../check.h"
#include "core/error.h"
#include "core/options.h"
#include "core/text.h"

static void* in_another_thread(void*) {
  CHECK(kw_last_error()[0] == '\0', "a new thread starts with %s", kw_last_error());
  kw::fail(KW_ERROR_SYSTEM, "theirs");
  return nullptr;
}

CASE(one_message_a_thread) {
  CHECK(kw_last_error()[0] == '\0', "a message before any failure");
  CHECK(kw::fail(KW_ERROR_CUDA, "ours %d", 7) == KW_ERROR_CUDA, "fail() returns its status");
  pthread_t thread;
  pthread_create(&thread, nullptr, in_another_thread, nullptr);
  pthread_join(thread, nullptr);
  CHECK(strcmp(kw_last_error(), "ours 7") == 0, "got %s", kw_last_error());
}

CASE(long_messages) {
  static char text[10000];
  memset(text, 'x', sizeof text - 1);
  kw::fail(KW_ERROR_CUDA, "%s", text);
  CHECK(strlen(kw_last_error()) == 4095, "%zu characters", strlen(kw_last_error()));
  kw::Text<16> line;
  line.add("%d, ", 123456);
  CHECK(strcmp(line.data, "123456, ") == 0, "got %s", line.data);
  line.add("%s", "abcdefg");
  CHECK(strcmp(line.data, "123456, abcdefg") == 0, "15 characters fit: %s", line.data);
  line.add("%s", "h");
  CHECK(strcmp(line.data, "123456, abcdefg") == 0, "got %s", line.data);
  kw::Text<8> tight;
  tight.add("%s", "abcdefgh");
  CHECK(strcmp(tight.data, "abcd...") == 0, "got %s", tight.data);
}

CASE(status_names) {
  CHECK(strcmp(kw_status_name(KW_OK), "KW_OK") == 0, "got %s", kw_status_name(KW_OK));
  CHECK(strcmp(kw_status_name(12), "KW_ERROR_SYSTEM") == 0, "got %s", kw_status_name(12));
  CHECK(strcmp(kw_status_name(13), "unknown status") == 0, "a code was added without its name: %s", kw_status_name(13));
  for (int status = 0; status <= 12; ++status) {
    CHECK(strncmp(kw_status_name(status), "KW_", 3) == 0, "%d has no name", status);
  }
}

CASE(options) {
  CHECK_STATUS(kw_set_option("colour", "red"), KW_ERROR_INVALID_ARGUMENT, kw_last_error(), "colour", "kernels", "arch",
               "threads", "cpu_isa");
  CHECK_STATUS(kw_set_option(nullptr, "x"), KW_ERROR_INVALID_ARGUMENT, kw_last_error(), "NULL");
  CHECK_STATUS(kw_set_option("kernels", "/no/such/directory"), KW_ERROR_INVALID_ARGUMENT, kw_last_error(),
               "/no/such/directory", "No such file");
  for (const char* bad : {"x", "-1", "3x", "99999999999", "1.5"}) {
    CHECK_STATUS(kw_set_option("threads", bad), KW_ERROR_INVALID_ARGUMENT, kw_last_error(), bad);
  }
  static char name[200];
  memset(name, 'a', sizeof name - 1);
  CHECK_STATUS(kw_set_option("arch", name), KW_ERROR_INVALID_ARGUMENT, kw_last_error(), "199", "63");
  name[64] = '\0';
  CHECK_STATUS(kw_set_option("arch", name), KW_ERROR_INVALID_ARGUMENT, kw_last_error(), "64", "63");
  CHECK(kw_set_option("arch", name + 1) == KW_OK && kw_set_option("arch", "") == KW_OK, "%s", kw_last_error());
  CHECK(kw_set_option("threads", "3") == KW_OK && kw_num_threads() == 3, "%d threads", kw_num_threads());
  CHECK(kw_set_option("threads", "") == KW_OK, "%s", kw_last_error());

  char here[PATH_MAX];
  kw::Options read;
  CHECK(kw_set_option("kernels", ".") == KW_OK, "%s", kw_last_error());
  kw::read_options(&read);
  CHECK(getcwd(here, sizeof here) != nullptr && strcmp(read.kernels, here) == 0, "kept %s", read.kernels);
  CHECK(kw_set_option("kernels", nullptr) == KW_OK, "%s", kw_last_error());
  kw::read_options(&read);
  CHECK(read.kernels[0] == '\0', "kept %s", read.kernels);
}

CASE(null_results) {
  CHECK_STATUS(kw_device_count(nullptr), KW_ERROR_INVALID_ARGUMENT, kw_last_error(), "kw_device_count");
  CHECK_STATUS(kw_driver_version(nullptr), KW_ERROR_INVALID_ARGUMENT, kw_last_error(), "kw_driver_version");
  CHECK_STATUS(kw_device_capability(0, nullptr), KW_ERROR_INVALID_ARGUMENT, kw_last_error(), "kw_device_capability");
  CHECK_STATUS(kw_image_for("x", 90, nullptr), KW_ERROR_INVALID_ARGUMENT, kw_last_error(), "image");
  const char* image = nullptr;
  CHECK_STATUS(kw_image_for(nullptr, 90, &image), KW_ERROR_INVALID_ARGUMENT, kw_last_error(), "op");
}

RUN_CASES()
