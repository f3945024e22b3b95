# SPDX-License-Identifier: MIT
"""How long `explain` and `xray` take, whole processes: on logs of which no line is like another, and on long ones.

python benchmarks/explain.py [WHEEL]
"""

from __future__ import annotations

import random
import string
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_CAUSE = "nvcc fatal   : Unsupported gpu architecture 'compute_120'"
_SHORT, _LONG, _TURNS = 2_000_000, 77_000_000, 3


def _words(size: int) -> list[str]:
    """Lines of words that nobody knows, with one cause in their midst."""
    draw, lines = random.Random(1), []  # noqa: S311 - made up text
    while size > 0:
        lines.append(" ".join("".join(draw.choices(string.ascii_lowercase, k=draw.randint(2, 9))) for _ in range(12)))
        size -= len(lines[-1]) + 1
    lines[len(lines) // 2] = _CAUSE
    return lines


def _logs() -> Iterator[tuple[str, str]]:
    own = _words(_SHORT)
    yield "one line", _CAUSE
    yield "2 MB, no line like another", "\n".join(own)
    yield "77 MB, each line 38 times", "\n".join(own * (_LONG // _SHORT))
    draw, lines, size = random.Random(2), [], 0  # noqa: S311 - as above
    while size < _LONG:
        lines.append(f"{draw.random():.6f} step {draw.randrange(10**6)} loss {draw.random():.4f} {draw.choice(own)}")
        size += len(lines[-1]) + 1
    yield "77 MB, other numbers in each line", "\n".join(lines)


def _seconds(*words: str) -> float:
    """The least of some turns, of the whole process."""
    least = float("inf")
    for _ in range(_TURNS):
        start = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-m", "kernelwright", *words], capture_output=True, text=True, check=False
        )
        least = min(least, time.perf_counter() - start)
        if done.returncode not in (0, 1) or not done.stdout:
            sys.exit(done.stderr)
    return least


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="kernelwright-") as scratch:
        log = Path(scratch) / "log"
        for name, text in _logs():
            log.write_text(text, encoding="utf-8")
            print(f"explain, {name}: {_seconds('explain', str(log)):.2f} s", flush=True)
    for wheel in sys.argv[1:]:
        print(f"xray {Path(wheel).name}: {_seconds('xray', wheel):.2f} s")


if __name__ == "__main__":
    main()
