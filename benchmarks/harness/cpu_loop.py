# SPDX-License-Identifier: MIT
"""A loop that reads what a case reads, writes what it writes, and computes nothing, called as cheaply as Python can.

It shows how much of a goal memory alone takes on this machine. The machine's C compiler makes it.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Callable

    from kernelwright.bench.harness.contestants import Prepare
    from kernelwright.bench.harness.subject import Subject

AHEAD = (0, 2048)
"""Bytes that it fetches ahead into the first cache, by contestant."""
_SOURCE = Path(__file__).with_suffix(".c")
_FLAGS = ("-O3", "-march=native", "-mprefer-vector-width=512", "-shared", "-fPIC")
_MOST = 4


class _Streams(ctypes.Structure):
    _fields_ = (
        ("read", ctypes.c_void_p * _MOST),
        ("written", ctypes.c_void_p * _MOST),
        ("bytes", ctypes.c_int64),
        ("ahead", ctypes.c_int64),
        ("reads", ctypes.c_int32),
        ("writes", ctypes.c_int32),
        ("threads", ctypes.c_int32),
    )


def _openmp() -> ctypes.CDLL:
    """The one that torch computes with."""
    maps = Path("/proc/self/maps").read_text().splitlines()
    found = {line.split(maxsplit=5)[5] for line in maps if "libgomp" in line}
    if len(found) != 1:
        raise OSError(f"this process has loaded {len(found)} libraries of GNU's OpenMP, but one is needed")
    return ctypes.CDLL(found.pop())


@cache
def _loop() -> Callable[[Any], None]:
    compiler = os.environ.get("CC") or shutil.which("gcc") or shutil.which("cc")
    if not compiler:
        raise OSError("there is no C compiler")
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder, "loop.so")
        flags = _FLAGS if os.uname().machine == "x86_64" else [f for f in _FLAGS if "vector-width" not in f]
        try:
            subprocess.run([compiler, *flags, "-o", made, _SOURCE], check=True)
        except subprocess.CalledProcessError as error:
            raise OSError(f"{compiler} does not make {_SOURCE.name}") from error
        library = ctypes.CDLL(str(made))
    runtime = _openmp()
    addresses = (
        ctypes.cast(getattr(runtime, name), ctypes.c_void_p) for name in ("GOMP_parallel", "omp_get_thread_num")
    )
    library.loop_use(*addresses)
    run = library.loop_run
    run.argtypes, run.restype = (ctypes.c_void_p,), None
    return run


def _parts(tensor: Any, size: int) -> list[int]:
    """Addresses of the streams of `size` bytes that it is."""
    first = tensor.data_ptr()
    return [first + start for start in range(0, tensor.nbytes, size)]


def _tensors(values: Any) -> list[Any]:
    return [value for value in values if isinstance(value, torch.Tensor)]


def _prepare(subject: Subject, threads: int, ahead: int) -> Prepare:
    loop, weight = _loop(), subject.cols  # elements: what has no more is no part of the loop

    def prepared(*arguments: Any) -> Callable[[], Any]:
        fakes = subject.overload.fake(*arguments)
        results = [t for t in (fakes if isinstance(fakes, tuple) else (fakes,)) if t.numel() > weight]
        given = [t for t in _tensors(arguments) if t.numel() > weight]
        size = min(t.nbytes for t in (*given, *results))
        if any(t.nbytes % size for t in (*given, *results)):
            raise ValueError(f"no loop for {subject.name}: its tensors are not whole multiples of the smallest")
        ins = [address for tensor in given for address in _parts(tensor, size)]
        written = [address for place in subject.written() for address in _parts(arguments[place], size)]
        offsets = [range(0, tensor.nbytes, size) for tensor in results]
        count = len(written) + sum(map(len, offsets))
        streams = _Streams(bytes=size, ahead=ahead, reads=len(ins), writes=count, threads=threads)
        streams.read[: len(ins)] = ins
        streams.written[: len(written)] = written
        at, outs, first = ctypes.addressof(streams), streams.written, len(written)

        def call(_kept: Any = (streams, arguments)) -> Any:
            made = [torch.empty_like(tensor) for tensor in results]
            outs[first:count] = [
                address + offset
                for address, parts in zip([tensor.data_ptr() for tensor in made], offsets, strict=True)
                for offset in parts
            ]
            loop(at)
            return made

        return call

    return prepared


def contestants(subject: Subject, threads: int) -> dict[str, Prepare]:
    """By name, for what reads and writes rows, more than two; OSError where it cannot be made here."""
    return {f"loop {ahead}": _prepare(subject, threads, ahead) for ahead in AHEAD}
