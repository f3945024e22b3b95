# SPDX-License-Identifier: MIT
"""One device's time, in a process of its own: bits, rows, hidden, intermediate, layers, repeats, device."""

from __future__ import annotations

import sys

if __name__ == "__main__":
    from kernelwright.bench.bitnet import _stack

    *numbers, device = sys.argv[1:]
    bits, rows, hidden, intermediate, layers, repeats = map(int, numbers)
    print(_stack.seconds(bits, rows, hidden, intermediate, layers, device, repeats))
