# SPDX-License-Identifier: MIT
"""The C++ model of BitNet: its test, and its example on no GPU, one and two, built by CMake against the installed wheel.

python -m tests.gpu.pair.cpp FILE [--device cpu]
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import kernelwright
from tests.gpu.pair import ranks

ROOT = Path(__file__).resolve().parents[3]


def ran(command: list[str], folder: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "HOME": folder})
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}: exit code {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done.stdout


def timed(program: str, gpus: int, size: list[str], folder: str) -> dict[str, Any]:
    said = ran([program, str(gpus), *size], folder)
    number = re.search(r"([0-9.]+) ms, ([0-9]+) rows a second", said)
    if number is None:
        raise SystemExit(f"the example printed no time: {said}")
    return {"GPUs": gpus, "ms": float(number[1]), "rows_per_second": int(number[2]), "said": said.strip()}


def main() -> None:
    asked = ranks.options(__doc__)
    with tempfile.TemporaryDirectory() as folder:
        package = Path(next(iter(kernelwright.__path__)))
        source = str(ROOT / "tests" / "cpp" / "bitnet")
        ran(
            [
                "cmake",
                "-S",
                source,
                "-B",
                folder,
                "-DCMAKE_BUILD_TYPE=Release",
                f"-Dkernelwright_DIR={package / 'cmake'}",
            ],
            folder,
        )
        ran(["cmake", "--build", folder, "-j", "4"], folder)
        said = ran([f"{folder}/consumer"], folder).strip().split("\n")
        found: dict[str, Any] = {"test": said}
        ranks.write(asked.out, found)
        sizes = {"64 rows": ["64", "2560", "2"], "4096 rows": ["4096", "2560", "2"]}
        counts = (1, 2)
        if asked.device == "cpu":
            sizes, counts = {"2 rows": ["2", "256", "2"]}, (0,)
        for name, size in sizes.items():
            found[name] = [timed(f"{folder}/example", gpus, size, folder) for gpus in counts]
    right = any("all right" in line for line in said)
    ranks.write(asked.out, found | {"ok": right and (asked.device == "cpu" or any("2 GPUs" in line for line in said))})


if __name__ == "__main__":
    main()
