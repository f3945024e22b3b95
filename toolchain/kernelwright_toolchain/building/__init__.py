# SPDX-License-Identifier: MIT
"""The main job: kernels, wheel, self-check, table. Refused first, provisioned, built; skipped if nothing changed."""

from kernelwright_toolchain.building.options import Options
from kernelwright_toolchain.building.run import Outcome, build

__all__ = ["Options", "Outcome", "build"]
