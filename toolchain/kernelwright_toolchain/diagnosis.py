# SPDX-License-Identifier: MIT
"""kernelwright's doctor and X-ray for any project: the same files, packed into this toolchain too.

They run in a process of their own. Of kernelwright itself nothing is needed there: neither its library nor its kernels.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from kernelwright_toolchain.manifest import targets_json
from kernelwright_toolchain.project import carried
from kernelwright_toolchain.targets import load
from kernelwright_toolchain.version import VERSION

# What the doctor imports of its package; `doctor` is a folder.
FILES = (
    "__init__.py", "__main__.py", "_environment.py", "_files.py", "_fork.py", "_library.py", "_refusal.py", "errors.py",
)  # fmt: skip
FOLDER = "doctor"
_PROGRAM = """import sys
sys.path.insert(0, sys.argv[1])
import kernelwright
kernelwright.__path__.append(sys.argv[2])
from kernelwright.__main__ import main
sys.exit(main(sys.argv[3:]))
"""


def run(verb: str, words: Sequence[str]) -> int:
    """`python -m kernelwright VERB WORDS`, with this toolchain's table; its exit code."""
    with tempfile.TemporaryDirectory(prefix="kwt-doctor-") as place:
        (Path(place) / "targets.json").write_bytes(targets_json(load()))
        # The command's --version reads it; there are no images.
        (Path(place) / "manifest.json").write_text(json.dumps({"schema": 1, "version": VERSION, "images": []}))
        command = [sys.executable, "-I", "-c", _PROGRAM, str(carried()), place, verb, *words]
        return subprocess.run(command, check=False).returncode
