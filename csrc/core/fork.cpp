// SPDX-License-Identifier: MIT
#include "core/fork.h"

#include <pthread.h>

#include "core/error.h"

namespace kw {
namespace {

int cuda_used = 0;
int is_child = 0;
int guard_error = 0;
pthread_once_t guarded = PTHREAD_ONCE_INIT;

void in_child() {
  if (__atomic_load_n(&cuda_used, __ATOMIC_RELAXED)) __atomic_store_n(&is_child, 1, __ATOMIC_RELAXED);
  reset_loader_lock();  // another thread of the parent may have held it
  release_options();
}

void install() { guard_error = pthread_atfork(hold_options, release_options, in_child); }

}  // namespace

kw_status guard_fork() {
  pthread_once(&guarded, install);
  if (guard_error == 0) return KW_OK;
  return fail(KW_ERROR_SYSTEM, "cannot watch for fork(): pthread_atfork returned %d; the process is out of memory",
              guard_error);
}

void mark_cuda_used(bool used) { __atomic_store_n(&cuda_used, used ? 1 : 0, __ATOMIC_RELAXED); }

bool forked() { return __atomic_load_n(&is_child, __ATOMIC_RELAXED) != 0; }

}  // namespace kw
