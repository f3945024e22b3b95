# SPDX-License-Identifier: MIT
"""`scaled.scale(x, factor)`: x * factor, by a kernel of its own."""

import torch

from scaled import _C  # noqa: F401 - registers the operator

scale = torch.ops.scaled.scale
