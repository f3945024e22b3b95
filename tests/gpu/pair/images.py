# SPDX-License-Identifier: MIT
"""Two GPUs and one wheel's images: every case of every operator on both, from one process, bit by bit.

    python -m tests.gpu.pair.images FILE [--device cpu]     KERNELWRIGHT_ARCH in the environment: that image on both

GPU 0 stays the current one; arguments are made there and copied.
"""

from __future__ import annotations

import ctypes
from typing import Any

import torch

from kernelwright import _library, ops
from tests.gpu import program
from tests.gpu.pair import ranks


def chosen(capabilities: set[tuple[int, int]]) -> dict[str, dict[str, int]]:
    """For each kind of GPU how many operators take which image of the wheel."""
    library, found = _library.load(), {}
    for major, minor in sorted(capabilities):
        counted: dict[str, int] = {}
        for op in {image["op"] for image in _images()}:
            image = ctypes.c_char_p()
            library.call("kw_image_for", op.encode(), major * 10 + minor, ctypes.byref(image))
            code = (image.value or b"none").decode()
            counted[code] = counted.get(code, 0) + 1
        found[f"{major}.{minor}"] = counted
    return found


def _images() -> list[dict[str, Any]]:
    from kernelwright import _files

    found: list[dict[str, Any]] = _files.read("manifest.json")["images"]
    return found


def moved(value: Any, device: str) -> Any:
    return value.to(device, copy=True) if isinstance(value, torch.Tensor) else value


def compared(devices: list[str], every: int) -> dict[str, Any]:
    generator = torch.Generator(devices[0]).manual_seed(5)
    calls, tensors, differ = 0, 0, []
    names = ops.names()
    for op in (ops.record(name) for name in names):
        for case in op.cases[::every]:
            first = op.make(case, devices[0], generator)
            second = tuple(moved(a, devices[1]) for a in first)
            pair = program.outputs(op, case, first), program.outputs(op, case, second)
            calls += 1
            for a, b in zip(*pair, strict=True):
                tensors += 1
                if str(b.device) != devices[1] or not ranks.same_bits(a, b.to(a.device)):
                    differ.append(f"{op.name} {case} on {b.device}")
    return {"operators": len(names), "calls": calls, "tensors": tensors, "differ": differ[:10], "ok": not differ}


def main() -> None:
    asked = ranks.options(__doc__)
    ops.register()
    gpus = asked.device == "cuda"
    devices = ["cuda:0", "cuda:1"] if gpus else ["cpu", "cpu"]
    capabilities = {torch.cuda.get_device_capability(k) for k in (0, 1)} if gpus else {(9, 0), (8, 0)}
    ranks.write(asked.out, {"images": chosen(capabilities)} | compared(devices, 10 if asked.quick else 1))


if __name__ == "__main__":
    main()
