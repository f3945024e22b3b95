# SPDX-License-Identifier: MIT
"""What a call of a device-only package costs up to its launch, where no GPU is: by a driver that does nothing.

    kwt build --project examples/device_only --out dist/two && pip install --target DIR dist/two/*.whl
    PYTHONPATH=DIR python benchmarks/launch_cpu.py

Its kernels for GPUs go through torch's dispatcher with tensors of the CPU. A line an operator: the processor time of a
call above that of torch.empty_like, the least of several rounds, and how often it calls the driver. Figures of two
machines cannot be compared; those of two builds in turns on one can.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

DRIVER = Path(__file__).with_name("standin_driver.c")
CALLS, ROUNDS = 2000, 25
_AGAIN = "KW_STANDIN_DRIVER"


def compiled(folder: Path) -> Path:
    """The driver, as the loader finds it by LD_LIBRARY_PATH."""
    library = folder / "libcuda.so.1"
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", str(library), str(DRIVER)], check=True)
    return library


def _microseconds(call: Callable[[], object]) -> float:
    call()
    found = []
    for _ in range(ROUNDS):
        began = time.thread_time()
        for _ in range(CALLS):
            call()
        found.append((time.thread_time() - began) / CALLS * 1e6)
    return min(found)


def operators(torch: Any, package: str, library: Any, in_c: bool) -> dict[str, Callable[..., object]]:
    """Each operator again in `library`: its kernel for GPUs is the CPU's there, whose tensors' device is number -1."""
    made = importlib.import_module(f"{package}._operators")
    vars(made)["_stream"] = lambda _: 0
    found = {}
    for name in importlib.import_module(package).__all__:
        kernel, pack = getattr(made, f"_gpu_{name}"), getattr(made, f"_pack_{name}")
        setattr(made, f"_pack_{name}", lambda *words, pack=pack: pack(*words[:-2], 0, words[-1]))
        schema = str(torch._C._get_schema(f"{package}::{name}", ""))  # noqa: SLF001 - the only way to it
        library.define(schema.partition("::")[2])
        found[name] = operator = getattr(getattr(torch.ops, library.ns), name).default
        if in_c and made._implement(library.ns, "CPU", name):  # noqa: SLF001 - as its own registration does
            found[name] = made._in_its_words(operator)  # noqa: SLF001
        else:
            library.impl(name, kernel, "CPU")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--package", default="two_kernels")
    parser.add_argument("--python", action="store_true", help="the kernels in Python, as a torch before 2.10 has them")
    given = parser.parse_args()
    if not os.environ.get(_AGAIN):
        with tempfile.TemporaryDirectory(prefix="driver-") as folder:
            library = compiled(Path(folder))
            env = {**os.environ, _AGAIN: str(library), "LD_LIBRARY_PATH": folder}
            return subprocess.run([sys.executable, *sys.argv], env=env, check=False).returncode
    import torch

    driver = ctypes.CDLL(os.environ[_AGAIN])
    count = ctypes.c_int.in_dll(driver, "standin_calls")
    checks = {check.name: check for check in importlib.import_module(f"{given.package}.__main__").CHECKS}
    library = torch.library.Library(f"{given.package}_standin", "DEF")
    for name, operator in operators(torch, given.package, library, not given.python).items():
        words = checks[name].example(torch, "cpu", getattr(torch, checks[name].dtypes[0]))
        beside = _microseconds(lambda x=words[0]: torch.empty_like(x))
        taken = _microseconds(lambda f=operator, w=words: f(*w))
        count.value = 0
        operator(*words)
        print(f"{name:<20} {taken - beside:6.2f} us over empty_like ({beside:.2f}), {count.value} calls of the driver")
    return 0


if __name__ == "__main__":
    sys.exit(main())
