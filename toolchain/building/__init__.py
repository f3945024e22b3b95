# SPDX-License-Identifier: MIT
"""The main job: kernels, wheel, self-check, table. Refused first, provisioned, built; skipped if nothing changed."""

from toolchain.building.build import Outcome, build
from toolchain.building.options import Options

__all__ = ["Options", "Outcome", "build"]
