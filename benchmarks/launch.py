# SPDX-License-Identifier: MIT
"""What a call of a device-only package costs beside torch.empty_like, on this machine's GPU.

    kwt build --project examples/device_only --out dist/two && pip install dist/two/*.whl
    python benchmarks/launch.py --out launch.json

Host time of a call that is not waited for, of tensors so small that the GPU is never behind: rounds in turns, the
median of each, and their difference. A line a kernel; exit code 1 where one is over --most.
"""

from __future__ import annotations

import argparse
import importlib
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

CALLS, ROUNDS = 200, 51


def _microseconds(torch: Any, call: Callable[[], object]) -> float:
    torch.cuda.synchronize()
    began = time.perf_counter()
    for _ in range(CALLS):
        call()
    taken = time.perf_counter() - began
    torch.cuda.synchronize()
    return taken / CALLS * 1e6


def measured(torch: Any, call: Callable[[], object], beside: Callable[[], object]) -> dict[str, float]:
    for one in (call, beside):
        _microseconds(torch, one)  # loads the kernel, fills the allocator's cache
    rounds = [(_microseconds(torch, call), _microseconds(torch, beside)) for _ in range(ROUNDS)]
    own, other = (statistics.median(times) for times in zip(*rounds, strict=True))
    return {"us": own, "empty_like_us": other, "over_us": own - other}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--package", default="two_kernels")
    parser.add_argument("--most", type=float, default=10.0, help="microseconds over empty_like; default: 10")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    import torch

    if not torch.cuda.is_available():
        print("launch.py measures on a GPU, and torch sees none here", file=sys.stderr)
        return 2
    package = importlib.import_module(given.package)
    checks = importlib.import_module(f"{given.package}.__main__").CHECKS
    found: dict[str, Any] = {"device": torch.cuda.get_device_name(), "torch": torch.__version__, "kernels": {}}
    for check in checks:
        words = check.example(torch, "cuda", getattr(torch, check.dtypes[0]))
        operator, first = getattr(package, check.name), words[0]
        row = measured(torch, lambda f=operator, w=words: f(*w), lambda x=first: torch.empty_like(x))
        found["kernels"][check.name] = row
        also = f"empty_like {row['empty_like_us']:6.2f}  over it {row['over_us']:6.2f}"
        print(f"{check.name:<20} {row['us']:7.2f} us  {also}")
    if given.out:
        given.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return int(any(row["over_us"] > given.most for row in found["kernels"].values()))


if __name__ == "__main__":
    sys.exit(main())
