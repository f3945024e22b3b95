// SPDX-License-Identifier: MIT
// The threads of the program's own OpenMP runtime, where kw_share_openmp() found one.
#pragma once

#include "cpu/runtime/job.h"

namespace kw::cpu {

// Runs the job on them, this one included; false where they are not shared with this process.
bool run_on_team(const Job& job);

}  // namespace kw::cpu
