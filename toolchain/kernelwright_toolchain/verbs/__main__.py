# SPDX-License-Identifier: MIT
"""`python -m kernelwright_toolchain.verbs VERB …`: kwt, where no script of that name is."""

import sys

from kernelwright_toolchain.__main__ import command

if __name__ == "__main__":
    sys.exit(command())
