# SPDX-License-Identifier: MIT
"""The loop that benchmarks show beside a case reads all that the case reads, and writes all that it writes."""

from __future__ import annotations

import dataclasses
import shutil
from functools import reduce
from operator import xor
from pathlib import Path

import pytest

pytestmark = pytest.mark.torch
torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("kernelwright", reason="the kernelwright wheel is not installed here")

from benchmarks.harness import cpu_loop
from kernelwright import ops
from kernelwright.bench.harness.subject import Subject

# Row operators, whose tensors are all as large as x or small: neither those with codes and scales, nor products.
OTHERS = {"linear", "gated_linear", "quantize_ternary"}
ROWS = [
    op
    for op in map(ops.record, ops.names())
    if op.name not in OTHERS and not any(overload.fixed for overload in op.overloads)
]
OVERLOADS = [(op.name, overload.name) for op in ROWS for overload in op.overloads]


def streams(tensors, size):
    """Their bytes as whole numbers, in pieces of so many bytes; nothing of tensors that are smaller: weights."""
    return [part for t in tensors if t.nbytes >= size for part in t.flatten().view(torch.int64).split(size // 8)]


@pytest.mark.skipif(not any(map(shutil.which, ("gcc", "cc"))), reason="needs a C compiler on PATH")
@pytest.mark.skipif("libgomp" not in Path("/proc/self/maps").read_text(), reason="this torch does not use libgomp")
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize(("name", "overload"), OVERLOADS)
def test_it_reads_and_writes_what_the_case_does(name, overload, threads):
    ops.register()
    op = ops.record(name)
    case = next(c for c in op.benchmarks if c.overload == overload)
    subject = Subject(op, dataclasses.replace(case, shape=(9, 64)))
    given = op.make(subject.case, "cpu", torch.Generator().manual_seed(1))
    for prepare in cpu_loop.contestants(subject, threads).values():
        args = [a.clone() if isinstance(a, torch.Tensor) else a for a in given]
        size = 9 * 64 * args[0].element_size()
        read = streams([a for a in args if isinstance(a, torch.Tensor)], size)
        expected = reduce(xor, [part.clone() for part in read])
        made = prepare(*args)()
        written = streams([*made, *(args[place] for place in subject.written())], size)
        assert len(read) + len(written) == subject.bytes // size
        assert all(torch.equal(part, expected) for part in written)
