# SPDX-License-Identifier: MIT
"""Where will this CUDA wheel run? Asked of a wheel, a library or a folder; neither torch nor a GPU is needed.

python examples/xray_a_wheel.py [FILE]     # without one: the kernelwright that is installed
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import kernelwright

GPUS = ("t4", "a100", "l4", "h100", "orin")


def asked(file: Path, gpu: str) -> str:
    """The first line of the answer about one GPU."""
    command = [sys.executable, "-m", "kernelwright", "xray", "--gpu", gpu, str(file)]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.partition("\n")[0]


def main() -> None:
    """Prints one line for each GPU, and how many kernels the file has for which code."""
    file = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(kernelwright.__file__).parent
    for gpu in GPUS:
        print(f"{gpu:6}", asked(file, gpu))
    command = [sys.executable, "-m", "kernelwright", "xray", "--json", "--gpu", "h100", str(file)]
    found = json.loads(subprocess.run(command, capture_output=True, text=True, check=False).stdout)
    print("as data:", ", ".join(sorted(found)))


if __name__ == "__main__":
    main()
