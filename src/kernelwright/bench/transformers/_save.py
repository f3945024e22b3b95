# SPDX-License-Identifier: MIT
"""Writes the checkpoint, in a process of its own, so that no memory of a GPU stays taken."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from kernelwright.bench._shapes import Shape

if __name__ == "__main__":
    from kernelwright.bench.transformers import _models

    _models.save(Shape(**json.loads(sys.argv[1])), Path(sys.argv[2]), sys.argv[3])
