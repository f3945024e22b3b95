# SPDX-License-Identifier: MIT
"""The main job: kernels, wheel, self-check, table. Refused first, then provisioned, then built; skipped if unchanged."""

from toolchain.building.build import Outcome, build
from toolchain.building.options import Options

__all__ = ["Options", "Outcome", "build"]
