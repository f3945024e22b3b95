# SPDX-License-Identifier: MIT
"""`python -m toolchain VERB …`, from the root of the tree: the toolchain that lies here, installed or not."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from kernelwright_toolchain.__main__ import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
