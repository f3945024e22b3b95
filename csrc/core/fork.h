// SPDX-License-Identifier: MIT
// What fork() does to us: a child may not touch the driver that its parent used, and must not inherit a held lock.
#pragma once

#include <kernelwright/base.h>

namespace kw {

// Installs the handlers, once. Called before the first lock is taken.
kw_status guard_fork();

// While true, a fork makes the child's GPU calls fail.
void mark_cuda_used(bool used);

// Whether this process is a child of one that had used CUDA.
bool forked();

// Set in the child by the handlers of the file that owns the lock.
void reset_loader_lock();
void hold_options();
void release_options();

}  // namespace kw
