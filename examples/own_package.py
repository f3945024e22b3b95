# SPDX-License-Identifier: MIT
"""A package of one kernel of your own: `kwt new` writes it, `kwt build` makes its wheel, the same bytes each time.

    pip install ./toolchain                 # kwt
    python examples/own_package.py FOLDER   # where the package is to be; compilers are fetched by hash, 130 MB once

Then `pip install` the wheel that is printed, and `python -m hello`.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

NAME = "hello"


def kwt(*words: str, where: Path) -> None:
    """One verb of the toolchain; its failure ends this with what it said."""
    subprocess.run([sys.executable, "-m", "kernelwright_toolchain.verbs", *words], cwd=where, check=True)


def main() -> None:
    """Leaves the package in FOLDER/hello, with its wheel in dist/."""
    folder = Path(sys.argv[1]).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    kwt("new", NAME, where=folder)
    for file in sorted((folder / NAME).rglob("*.cu")):
        print(f"\n--- {file.relative_to(folder)}: the whole kernel\n{file.read_text(encoding='utf-8')}")
    kwt("build", where=folder / NAME)
    for wheel in (folder / NAME / "dist").glob("*.whl"):
        print(f"{hashlib.sha256(wheel.read_bytes()).hexdigest()}  {wheel}")


if __name__ == "__main__":
    main()
