// SPDX-License-Identifier: MIT
// What a Module holds once it is used.
#pragma once

#include "core/launch.h"
#include "core/library.h"

namespace kw {

struct Module::OnDevices {
  const LoadedImage* image[kMaxDevices];  // null until the operator was used there
};

}  // namespace kw
