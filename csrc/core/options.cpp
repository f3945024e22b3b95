// SPDX-License-Identifier: MIT
#include "core/options.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/fork.h"
#include "core/number.h"
#include "cpu/isa.h"

namespace kw {
namespace {

Options options;
pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

template <size_t N>
kw_status store(char (&slot)[N], const char* name, const char* value) {
  const size_t length = strlen(value);
  if (length >= N) {
    return fail(KW_ERROR_INVALID_ARGUMENT, "kw_set_option: the value of \"%s\" has %zu characters, at most %zu fit",
                name, length, N - 1);
  }
  KW_TRY(guard_fork());
  hold_options();
  memcpy(slot, value, length + 1);
  release_options();
  return KW_OK;
}

// Made absolute here, so that a later change of directory does not move it.
kw_status set_kernels(const char* value) {
  if (value[0] == '\0') return store(options.kernels, "kernels", value);
  char* absolute = realpath(value, nullptr);
  if (absolute == nullptr) {
    return fail(KW_ERROR_INVALID_ARGUMENT, "kw_set_option: the \"kernels\" directory %s cannot be used: %s", value,
                strerror(errno));
  }
  const kw_status status = store(options.kernels, "kernels", absolute);
  free(absolute);
  return status;
}

kw_status set_threads(const char* value) {
  const char* end = value;
  long long threads = 0;  // what no text means
  const bool is_one = *value == '\0' || read_number(value, &end, &threads);
  if (!is_one || *end != '\0' || threads < 0 || threads > INT32_MAX) {
    return fail(KW_ERROR_INVALID_ARGUMENT,
                "kw_set_option: \"threads\" = \"%s\" is not a number from 0 (the default) up", value);
  }
  return kw_set_num_threads(static_cast<int32_t>(threads));
}

}  // namespace

void read_options(Options* copy) {
  hold_options();
  *copy = options;
  release_options();
}

// Held over fork(), so that a child never starts with half a value.
void hold_options() { pthread_mutex_lock(&mutex); }
void release_options() { pthread_mutex_unlock(&mutex); }

}  // namespace kw

kw_status kw_set_option(const char* name, const char* value) {
  if (name == nullptr) return kw::fail(KW_ERROR_INVALID_ARGUMENT, "kw_set_option: name is NULL");
  if (value == nullptr) value = "";
  if (strcmp(name, "kernels") == 0) return kw::set_kernels(value);
  if (strcmp(name, "arch") == 0) return kw::store(kw::options.arch, name, value);
  if (strcmp(name, "threads") == 0) return kw::set_threads(value);
  if (strcmp(name, "cpu_isa") == 0) return kw::cpu::set_isa(value);
  return kw::fail(KW_ERROR_INVALID_ARGUMENT,
                  "kw_set_option: there is no option \"%s\"; there are kernels, arch, threads, cpu_isa", name);
}
